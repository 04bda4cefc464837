//! A progress bar over bytes, on a terminal, for work that takes over a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(1);

pub struct Progress {
    bar: ProgressBar,
    start: Instant,
    hidden: bool,
}

impl Progress {
    /// Over `bytes` read and written.
    pub fn new(bytes: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::hidden());
        let template = "{msg:6} {wide_bar} {bytes}/{total_bytes} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self {
            bar,
            start: Instant::now(),
            hidden: true,
        }
    }

    /// What the work is now.
    pub fn phase(&self, name: &'static str) {
        self.bar.set_message(name);
    }

    pub fn add(&mut self, bytes: u64) {
        self.bar.inc(bytes);
        if self.hidden && self.start.elapsed() > PATIENCE && std::io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.hidden = false;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
