//! How far along the work is: on a terminal's standard error only.

use std::fmt;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};

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
            "{wide_bar} {human_pos}/{human_len} instructions, {rate} a second",
            "{spinner} {human_pos} instructions, {rate} a second",
        )
    }

    /// Counts steps of a known number, and names the one that is under way.
    pub fn steps(total: u64, quiet: bool) -> Self {
        let template = "{wide_bar} {pos}/{len} {msg} {elapsed}";
        Self::with_templates(Some(total), quiet, template, template)
    }

    /// The next step begins.
    pub fn begin(&self, name: String) {
        if let Some(bar) = &self.0 {
            bar.set_message(name);
            bar.inc(1);
        }
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
            // The library's own rate has four digits after the point.
            let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
                let _ = write!(out, "{}", HumanCount(state.per_sec() as u64));
            };
            bar.set_style(style.with_key("rate", rate));
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
