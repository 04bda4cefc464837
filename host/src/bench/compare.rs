//! Reading what other implementations took for the same work.
//!
//! The file is a JSON list of rows, or text with one JSON row a line (what a script
//! prints while it runs). Fields: `op`, `shape`, `dtype`, `peer`, `us`, optional `note`.
//! Lines and rows that are none are counted, rows with an `error` are quoted, both as
//! notes of the report: a peer that did not run must not look like one that lost.

use super::row::{PeerMatch, Report};
use super::workloads::argument;
use crate::error::Result;
use serde::Deserialize;
use serde_json::Value;

/// The rows of a peers' file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peers {
    rows: Vec<PeerRow>,
    /// What was not used, and why.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct PeerRow {
    op: String,
    shape: Vec<usize>,
    dtype: String,
    peer: String,
    us: f64,
    #[serde(default)]
    note: String,
}

impl PeerRow {
    /// The operation's name here.
    fn operation(&self) -> &str {
        match self.op.as_str() {
            "scan" => "linear-scan",
            "scan.backward" => "linear-scan-backward",
            "selective.scan" => "selective-scan",
            "selective.layer" => "layer",
            "selective.proj" => "projection",
            "dispatch.index" => "route",
            "dispatch.copy" => "dispatch",
            other => other,
        }
    }

    /// Its sizes as they are here: those of the peers' routing have an H, which no routing
    /// depends on.
    fn sizes(&self) -> Vec<usize> {
        match (self.op.as_str(), self.shape.as_slice()) {
            ("dispatch.index", &[tokens, _, experts, top_k]) => vec![tokens, experts, top_k],
            _ => self.shape.clone(),
        }
    }

    /// Whether the time is that of a graph of many launches with a warm cache.
    fn warm(&self) -> bool {
        let says = |text: &str| text.contains("graph replay") || text.contains("warm L2");
        says(&self.peer) || says(&self.note)
    }
}

impl Peers {
    /// Reads the text of a peers' file.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) when it holds not a single row.
    pub fn parse(text: &str) -> Result<Self> {
        let mut peers = Self::default();
        let mut ignored = 0usize;
        match serde_json::from_str::<Vec<Value>>(text) {
            Ok(list) => list.into_iter().for_each(|row| peers.add(row)),
            Err(_) => {
                for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
                    match serde_json::from_str::<Value>(line) {
                        Ok(row) if row.is_object() => peers.add(row),
                        _ => ignored += 1,
                    }
                }
            }
        }
        if ignored > 0 {
            let lines = if ignored == 1 { "line" } else { "lines" };
            peers.notes.push(format!(
                "peers: {ignored} {lines} without a JSON row, ignored"
            ));
        }
        if peers.rows.is_empty() {
            let mut found = "a file without a row".to_owned();
            if let Some(note) = peers.notes.first() {
                found = format!("{found} ({note})");
            }
            return Err(argument(
                "compare",
                found,
                "a JSON list, or one JSON object a line, with op, shape, dtype, peer and us",
            ));
        }
        Ok(peers)
    }

    fn add(&mut self, value: Value) {
        if let Some(error) = value.get("error") {
            let name = value.get("peer").and_then(Value::as_str).unwrap_or("?");
            let error = error
                .as_str()
                .map_or_else(|| error.to_string(), str::to_owned);
            self.notes
                .push(format!("peers: `{name}` did not run: {error}"));
            return;
        }
        let text = value.to_string();
        match serde_json::from_value::<PeerRow>(value) {
            Ok(row) if row.us.is_finite() && row.us > 0.0 => self.rows.push(row),
            Ok(row) => self
                .notes
                .push(format!("peers: `{}` has {} us, ignored", row.peer, row.us)),
            Err(error) => self.notes.push(format!(
                "peers: row ignored: {error}: {}",
                text.chars().take(80).collect::<String>()
            )),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds the best peer to each row of the same work: same operation, sizes and element
    /// type, whatever memory layout the peer takes (its name says which). Cold times are
    /// held against cold ones, warm against warm.
    pub fn apply(&self, report: &mut Report) {
        for row in &mut report.rows {
            let best = |warm: bool, ours: Option<f64>| {
                let us = ours?;
                let peer = self
                    .rows
                    .iter()
                    .filter(|peer| {
                        peer.operation() == row.op
                            && peer.sizes() == row.shape
                            && peer.dtype == row.dtype
                            && peer.warm() == warm
                    })
                    .min_by(|a, b| a.us.total_cmp(&b.us))?;
                Some(PeerMatch {
                    peer: peer.peer.clone(),
                    us: peer.us,
                    ratio: peer.us / us,
                })
            };
            row.peer = best(false, row.cold.map(|time| time.median_us));
            row.warm_peer = best(true, row.warm.map(|warm| warm.time.median_us));
        }
        report.notes.extend(self.notes.iter().cloned());
        let matched = report
            .rows
            .iter()
            .any(|row| row.peer.is_some() || row.warm_peer.is_some());
        if !matched {
            report.notes.push(format!(
                "peers: none of the {} rows is about work that was measured",
                self.rows.len()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::sample_report;

    const LINES: &str = r#"
NVIDIA H200 2.9.0 3.5.0
{"op": "copy", "shape": [536870912], "dtype": "f32", "peer": "torch.copy_", "us": 1010.1, "bytes": 4294967296, "gbps": 4252.0, "note": ""}
seq err 1.2e-07
{"op": "scan", "shape": [32, 4096, 256], "dtype": "f32", "peer": "triton associative_scan in chunks", "us": 136.2, "bytes": 402653184, "gbps": 2956.3, "note": "BD=8"}
{"op": "scan", "shape": [32, 4096, 256], "dtype": "f32", "peer": "accelerated-scan warp (CUDA, own layout [B,D,L])", "us": 108.0, "bytes": 402653184, "gbps": 3728.0, "note": ""}
{"op": "scan", "shape": [32, 4096, 256], "dtype": "f32", "peer": "x, graph replay, warm L2", "us": 90.0, "bytes": 402653184, "gbps": 1.0, "note": ""}
{"peer": "torch associative_scan", "error": "RuntimeError: no"}
{"op": "scan", "shape": [1, 16384, 256], "dtype": "f32", "peer": "broken", "us": 0}
{"op": "scan", "shape": "?", "dtype": "f32", "peer": "broken", "us": 5}
"#;

    #[test]
    fn lines_with_noise() {
        let peers = Peers::parse(LINES).unwrap();
        assert_eq!(peers.len(), 4);
        let notes = peers.notes.join("\n");
        assert!(notes.contains("2 lines"), "{notes}");
        assert!(notes.contains("torch associative_scan") && notes.contains("RuntimeError: no"));
        assert!(notes.contains("0 us") && notes.contains("row ignored"));
    }

    #[test]
    fn peers_of_a_mixture_of_experts() {
        let lines = r#"
{"op": "dispatch.index", "shape": [2048, 128, 16, 1], "dtype": "i32", "peer": "bincount+cumsum+argsort", "us": 197.0}
{"op": "dispatch.copy", "shape": [2048, 128, 16, 1], "dtype": "f32", "peer": "index_select", "us": 9.0}
{"op": "dispatch.copy", "shape": [2048, 128, 16, 1], "dtype": "f32", "peer": "index_select, graph replay, warm L2", "us": 2.5}
{"op": "combine", "shape": [2048, 128, 16, 1], "dtype": "f32", "peer": "gather+weighted sum", "us": 30.0}
"#;
        let peers = Peers::parse(lines).unwrap();
        let match_of = |op: &str, shape: &[usize], dtype: &str| {
            let mut report = sample_report();
            report.rows.truncate(1);
            report.rows[0].op = op.to_owned();
            report.rows[0].shape = shape.to_vec();
            report.rows[0].dtype = dtype.to_owned();
            peers.apply(&mut report);
            let us = |peer: &Option<PeerMatch>| peer.as_ref().map(|peer| peer.us);
            (us(&report.rows[0].peer), us(&report.rows[0].warm_peer))
        };
        assert_eq!(
            match_of("route", &[2048, 16, 1], "i32"),
            (Some(197.0), None)
        );
        let sizes = [2048, 128, 16, 1];
        assert_eq!(match_of("dispatch", &sizes, "f32"), (Some(9.0), Some(2.5)));
        assert_eq!(match_of("combine", &sizes, "f32"), (Some(30.0), None));
        assert_eq!(match_of("combine", &sizes, "bf16"), (None, None));
    }

    #[test]
    fn best_of_the_same_work() {
        let mut report = sample_report();
        Peers::parse(LINES).unwrap().apply(&mut report);
        for row in &report.rows {
            let same = row.shape == [32, 4096, 256] && row.dtype == "f32";
            assert_eq!(row.peer.is_some(), same, "{}", row.label());
            assert_eq!(row.warm_peer.is_some(), same);
            if let Some(peer) = &row.peer {
                assert!(peer.peer.starts_with("accelerated-scan"));
                assert_eq!(peer.ratio, 108.0 / row.cold.unwrap().median_us);
                assert_eq!(row.warm_peer.as_ref().unwrap().us, 90.0);
            }
        }
        assert!(report.rows.iter().any(|row| row.peer.is_some()));
    }

    #[test]
    fn a_list_and_the_same_lines_agree() {
        let rows: Vec<Value> = LINES
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let list = Peers::parse(&serde_json::to_string_pretty(&rows).unwrap()).unwrap();
        assert_eq!(list.rows, Peers::parse(LINES).unwrap().rows);
    }

    #[test]
    fn other_work_is_said_to_be_other() {
        let mut report = sample_report();
        let text = r#"[{"op":"scan","shape":[7],"dtype":"f32","peer":"p","us":1}]"#;
        Peers::parse(text).unwrap().apply(&mut report);
        assert!(
            report
                .notes
                .iter()
                .any(|note| note.contains("none of the 1 rows"))
        );
    }

    #[test]
    fn a_file_without_rows_is_an_error() {
        for text in ["", "hello", "[]", "{\"a\": 1}", "[1, 2]"] {
            let error = Peers::parse(text).unwrap_err().to_string();
            assert!(error.contains("compare"), "{error}");
        }
    }
}
