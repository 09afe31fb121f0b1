//! How far along the work is: on a terminal's standard error only.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A progress display, or nothing where nobody would see it.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Counts bytes, of a total where it is known.
    pub fn bytes(total: Option<u64>, quiet: bool) -> Self {
        Self::with_templates(
            total,
            quiet,
            "{wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}",
            "{spinner} {bytes} {binary_bytes_per_sec}",
        )
    }

    /// Counts instructions, of a total where it is known.
    pub fn instructions(total: Option<u64>, quiet: bool) -> Self {
        Self::with_templates(
            total,
            quiet,
            "{wide_bar} {human_pos}/{human_len} instructions, {per_sec}",
            "{spinner} {human_pos} instructions, {per_sec}",
        )
    }

    fn with_templates(total: Option<u64>, quiet: bool, bounded: &str, unbounded: &str) -> Self {
        if quiet || !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let (bar, template) = match total {
            Some(total) => (ProgressBar::new(total), bounded),
            None => (ProgressBar::new_spinner(), unbounded),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(Some(bar))
    }

    /// More was done.
    pub fn add(&self, amount: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(amount);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
