//! The configurations that are compared.

/// A way to program a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// What it is called.
    pub name: String,
    /// The settings of the unit, in order.
    pub settings: Vec<(String, String)>,
}

impl Configuration {
    fn new(name: &str, base: &[(String, String)], settings: &[(&str, &str)]) -> Self {
        let own = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Self { name: name.to_owned(), settings: base.iter().cloned().chain(own).collect() }
    }
}

/// Everything that a unit can be asked for alone, at several rates where it has one, and together, on top of `base`.
/// Without more settings only atoms and addresses are traced, with a synchronisation every 4096 bytes.
pub fn configurations(base: &[(String, String)]) -> Vec<Configuration> {
    // Context IDs and VMIDs are on in a unit of which nothing is known.
    let mut plain = vec![("TRCCONFIGR".to_owned(), "0x1".to_owned())];
    plain.extend_from_slice(base);
    let own = |name, settings| Configuration::new(name, &plain, settings);
    let broadcast = ("branch_broadcast", "1");
    let cycles = ("cyclecount", "1");
    vec![
        own("atoms and addresses", &[]),
        own("return stack", &[("return_stack", "1")]),
        own("branch broadcast", &[broadcast]),
        own("cycle counts from 4 on", &[cycles, ("cycle_threshold", "4")]),
        own("cycle counts from 64 on", &[cycles, ("cycle_threshold", "64")]),
        own("cycle counts from 1024 on", &[cycles, ("cycle_threshold", "1024")]),
        own("timestamp every 1000", &[("timestamps", "1000")]),
        own("event every 1000", &[("events", "1000")]),
        own("context ID and VMID", &[("context_id", "32"), ("vmid", "8")]),
        own("broadcast, cycles, events", &[broadcast, cycles, ("cycle_threshold", "4"), ("events", "1000")]),
        own(
            "everything",
            &[
                broadcast,
                cycles,
                ("cycle_threshold", "4"),
                ("timestamps", "1000"),
                ("events", "1000"),
                ("context_id", "32"),
                ("vmid", "8"),
            ],
        ),
    ]
}
