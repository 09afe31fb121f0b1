//! A signal that ends the program leaves nothing half written.

use std::fs;
use std::thread;

use backsight_capture::whole::give_up_all;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, signal_name};

use super::say;

/// From now on, SIGINT, SIGTERM and SIGHUP remove what is not complete, and then do what they do.
pub fn give_up_on_signals() {
    let ignored = ignored_signals();
    // What our parent had ignored (nohup does) stays ignored.
    let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    // Without handlers the default holds: temporary files stay.
    let Ok(mut signals) = Signals::new(wanted) else { return };
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let given_up = give_up_all();
            for place in &given_up.places {
                let name = signal_name(signal).unwrap_or("a signal");
                say(format_args!("backsight: {}: nothing was written: ended by {name}", place.display()));
            }
            let _ = emulate_default_handler(signal);
            // Not reached: the default of each is to end.
            drop(given_up);
        }
    });
}

/// A bit for each signal that is ignored, from 1 on, where the system says.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
