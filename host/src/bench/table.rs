//! The report as text: what was measured on, the table, and a line for each thing to know.

use super::row::{Rate, Report, Row};
use super::stats::Timing;
use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write;

/// The whole report.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    header(&mut text, report);
    text.push('\n');
    for line in table(report).lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    footer(&mut text, report);
    text
}

fn header(out: &mut String, report: &Report) {
    let Report {
        launch_floor: floor,
        ceilings,
        ..
    } = report;
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "device    {}{}",
        report.device,
        match &report.driver {
            Some(driver) => format!(", driver {driver}"),
            None => String::new(),
        }
    );
    let _ = writeln!(
        out,
        "run       ferroseq {}{}, {}",
        report.version,
        match &report.commit {
            Some(commit) => format!(" ({commit})"),
            None => String::new(),
        },
        report.date
    );
    let mut list = String::new();
    for (name, rate) in [
        ("copy", &ceilings.copy),
        ("triad", &ceilings.triad),
        ("write", &ceilings.write),
    ] {
        let _ = write!(list, "{name} {} GB/s, ", billions(rate.rate));
    }
    let gops = |rate: &Option<Rate>| match rate {
        Some(rate) => format!("{} Gop/s", billions(rate.rate)),
        None => "not measured".to_owned(),
    };
    let _ = writeln!(
        out,
        "ceilings  {list}exp2 {}, fma {}",
        gops(&ceilings.exp2),
        gops(&ceilings.fma)
    );
    let _ = writeln!(
        out,
        "launch    {} us cold, {} us warm (an empty launch)",
        number(floor.cold.median_us),
        number(floor.warm.time.median_us)
    );
}

fn table(report: &Report) -> Table {
    let peers = report
        .rows
        .iter()
        .any(|row| row.peer.is_some() || row.warm_peer.is_some());
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut names = vec![
        "operation",
        "shape",
        "dtype",
        "layout",
        "cold us",
        "p10",
        "p90",
        "warm us",
        "MB",
        "GB/s",
        "%ceiling",
        "%same size",
        "floor",
        "x floor",
        "error",
    ];
    if peers {
        names.extend(["peer us", "x faster", "warm peer", "x faster"]);
    }
    names.push("status");
    table.set_header(&names);
    for row in &report.rows {
        table.add_row(cells(row, peers));
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if i >= 4 && i + 1 < names.len() && names[i] != "floor" {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cells(row: &Row, peers: bool) -> Vec<String> {
    let none = || "-".to_owned();
    let us = |time: Option<Timing>, pick: fn(&Timing) -> f64| {
        time.map_or_else(none, |time| number(pick(&time)))
    };
    let percent =
        |share: Option<f64>| share.map_or_else(none, |share| format!("{:.1}", 100.0 * share));
    let mut cells = vec![
        row.op.clone(),
        row.shape_text(),
        row.dtype.clone(),
        row.layout.clone().unwrap_or_else(none),
        us(row.cold, |time| time.median_us),
        us(row.cold, |time| time.p10_us),
        us(row.cold, |time| time.p90_us),
        us(row.warm.map(|warm| warm.time), |time| time.median_us),
        format!("{:.1}", row.bytes as f64 / 1e6),
        row.gbps.map_or_else(none, billions),
        percent(row.of_ceiling),
        percent(row.of_same_size),
        row.floor
            .map_or_else(none, |floor| floor.binds.name().to_owned()),
        row.floor
            .map_or_else(none, |floor| format!("{:.2}", floor.over)),
        row.error
            .map_or_else(none, |error| format!("{:.1e}", error.relative)),
    ];
    if peers {
        for peer in [&row.peer, &row.warm_peer] {
            cells.push(peer.as_ref().map_or_else(none, |peer| number(peer.us)));
            cells.push(
                peer.as_ref()
                    .map_or_else(none, |peer| format!("{:.2}", peer.ratio)),
            );
        }
    }
    cells.push(row.status.name().to_owned());
    cells
}

fn footer(out: &mut String, report: &Report) {
    let mut lines = Vec::new();
    for row in &report.rows {
        lines.extend(
            row.notes
                .iter()
                .map(|note| format!("{}: {note}", row.label())),
        );
        for (peer, how) in [(&row.peer, "cold"), (&row.warm_peer, "warm")] {
            if let Some(peer) = peer {
                lines.push(format!(
                    "{}: best peer {how}: {}, {} us",
                    row.label(),
                    peer.peer,
                    number(peer.us)
                ));
            }
        }
    }
    lines.extend(report.notes.iter().cloned());
    if !lines.is_empty() {
        out.push('\n');
        for line in lines {
            let _ = writeln!(out, "{line}");
        }
    }
}

/// A rate, with a decimal where it is small.
fn billions(rate: f64) -> String {
    let digits = if rate < 100.0 { 1 } else { 0 };
    format!("{rate:.digits$}")
}

/// Four significant digits or so, without an exponent.
fn number(us: f64) -> String {
    let digits = match us {
        us if us >= 1000.0 => 0,
        us if us >= 100.0 => 1,
        us if us >= 10.0 => 2,
        _ => 3,
    };
    format!("{us:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::sample_report;

    #[test]
    fn every_row_and_column_is_there() {
        let report = sample_report();
        let text = render(&report);
        let head = text.lines().find(|line| line.contains("x floor")).unwrap();
        for name in [
            "operation",
            "shape",
            "dtype",
            "us",
            "p10",
            "p90",
            "MB",
            "GB/s",
            "%ceiling",
            "floor",
            "error",
            "status",
        ] {
            assert!(head.contains(name), "{name} in {head}");
        }
        for row in &report.rows {
            assert!(text.contains(&row.shape_text()), "{}", row.label());
        }
        assert!(!head.contains("peer") && text.contains("an empty launch"));
        assert!(text.lines().all(|line| line == line.trim_end()));
    }

    #[test]
    fn failures_say_why_and_peers_say_who() {
        let mut report = sample_report();
        report.rows[1].status = crate::bench::row::Status::Failed;
        report.rows[1].cold = None;
        report.rows[1].notes.push("out of memory".to_owned());
        report.rows[0].peer = Some(crate::bench::row::PeerMatch {
            peer: "someone's kernel".to_owned(),
            us: 123.4,
            ratio: 1.19,
        });
        let text = render(&report);
        assert!(text.contains("FAILED") && text.contains("out of memory"));
        assert!(text.contains("someone's kernel, 123.4 us") && text.contains("1.19"));
    }

    #[test]
    fn numbers() {
        assert_eq!(number(1.2345), "1.234");
        assert_eq!(number(98.44), "98.44");
        assert_eq!(number(205.06), "205.1");
        assert_eq!(number(151_105.4), "151105");
        assert_eq!([3.16, 4091.4].map(billions), ["3.2", "4091"]);
    }
}
