//! What a subcommand says when it is done.

use super::output;
use ferroseq::ops::Layout;
use ferroseq::{DType, Device};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One operation on sequences: the JSON object, and the source of the human text.
#[derive(Debug, Serialize)]
pub struct Report {
    operation: &'static str,
    device: String,
    dtype: &'static str,
    /// `[B, L, D]`, whatever the layout.
    shape: [usize; 3],
    /// N, of operations with a state of several numbers a channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<usize>,
    layout: &'static str,
    seconds: f64,
    bytes: u64,
    gbps: f64,
    outputs: Vec<PathBuf>,
}

impl Report {
    /// The operation moved so many bytes in `time`.
    pub fn new(
        operation: &'static str,
        device: &Device,
        dtype: DType,
        shape: [usize; 3],
        layout: Layout,
        (bytes, time): (u64, Duration),
    ) -> Self {
        let seconds = time.as_secs_f64();
        Self {
            operation,
            device: device.to_string(),
            dtype: dtype.name(),
            shape,
            state: None,
            layout: match layout {
                Layout::Bld => "bld",
                Layout::Bdl => "bdl",
            },
            seconds,
            bytes,
            gbps: if seconds > 0.0 {
                bytes as f64 / seconds / 1e9
            } else {
                0.0
            },
            outputs: Vec::new(),
        }
    }

    /// The state size N.
    pub fn state(self, state: usize) -> Self {
        Self {
            state: Some(state),
            ..self
        }
    }

    /// The files that were written.
    pub fn wrote<'a>(self, outputs: impl IntoIterator<Item = &'a Path>) -> Self {
        let outputs = outputs.into_iter().map(Path::to_path_buf).collect();
        Self { outputs, ..self }
    }

    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            return output::print(&serde_json::to_string(self)?);
        }
        let [batch, length, channels] = self.shape;
        let outputs: Vec<String> = self
            .outputs
            .iter()
            .map(|p| p.display().to_string())
            .collect();
        let state = match self.state {
            Some(state) => format!(", N = {state}"),
            None => String::new(),
        };
        output::print(&format!(
            "device  {}\n\
             tensor  {} [B, L, D] = [{batch}, {length}, {channels}]{state}, layout {}\n\
             time    {:.3} ms for {:.1} MB, {:.1} GB/s\n\
             wrote   {}",
            self.device,
            self.dtype,
            self.layout,
            self.seconds * 1e3,
            self.bytes as f64 / 1e6,
            self.gbps,
            outputs.join(", ")
        ))
    }
}
