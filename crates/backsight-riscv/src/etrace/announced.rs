//! What support packets announced, and what is doubted of it.
//!
//! An encoder announces its options before it traces, and nothing in the stream repeats them. Damage can look like such a
//! packet and would then change how all that follows is read. So options that change while tracing goes on are doubted: a
//! sync packet has to follow, as after every change of options, and then nothing may look wrong until the next one. Otherwise
//! what was in force before is in force again. Options that change while nothing is traced are believed at once.

use super::{DataOptions, Options, Packet, Params, QualStatus, Support};

/// Parameters and options in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Announced {
    now: InForce,
    /// What the doubted ones replaced.
    before: Option<InForce>,
    /// A sync packet came after the doubted ones.
    has_synchronised: bool,
    /// A sync packet came after tracing began, or after it ended the last time.
    is_tracing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InForce {
    params: Params,
    options: Options,
    data_options: DataOptions,
}

impl Announced {
    /// What is known of an encoder before it announces anything.
    pub fn new(params: Params, options: Options) -> Self {
        let now = InForce { params, options, data_options: DataOptions::default() };
        Self { now, before: None, has_synchronised: false, is_tracing: false }
    }

    /// The parameters; the draft's support packets change them.
    pub const fn params(&self) -> &Params {
        &self.now.params
    }

    /// The options.
    pub const fn options(&self) -> &Options {
        &self.now.options
    }

    /// The options of data trace.
    pub const fn data_options(&self) -> &DataOptions {
        &self.now.data_options
    }

    /// Does the next packet decide whether the options are believed?
    pub const fn waits_for_sync(&self) -> bool {
        self.before.is_some() && !self.has_synchronised
    }

    /// Takes over what a support packet announces.
    pub fn support(&mut self, support: &Support) {
        let old = self.now;
        support.announce(&mut self.now.params, &mut self.now.options);
        self.now.data_options = support.data_options;
        if self.before == Some(self.now) {
            self.before = None;
        } else if self.now != old && self.is_tracing {
            self.before.get_or_insert(old);
            self.has_synchronised = false;
        }
        // Damage may say that tracing ended: what comes after that is not believed any sooner.
        if support.qual_status != QualStatus::NoChange && self.before.is_none() {
            self.is_tracing = false;
        }
    }

    /// Takes note of any other packet. True: it is one that cannot follow, so what was in force before is in force again.
    pub fn packet(&mut self, packet: &Packet) -> bool {
        match packet {
            Packet::Support(_) | Packet::Context(_) => false,
            Packet::Start(_) | Packet::Trap(_) => {
                if self.has_synchronised {
                    self.before = None;
                }
                self.has_synchronised = self.before.is_some();
                self.is_tracing = true;
                false
            }
            _ => self.waits_for_sync() && self.fault(),
        }
    }

    /// Something was wrong with what followed. True: what was in force before is in force again.
    pub fn fault(&mut self) -> bool {
        let Some(before) = self.before.take() else { return false };
        self.now = before;
        self.has_synchronised = false;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BranchMap, Start};
    use super::*;

    const SYNC: Packet = Packet::Start(Start { branch: true, privilege: 0, time: 0, context: 0, address: 0 });
    const BRANCHES: Packet = Packet::Branches { map: BranchMap::EMPTY, address: None };

    fn announces(full_address: bool) -> Support {
        Support { options: Options { full_address, ..Options::default() }, ..Support::default() }
    }

    fn tracing() -> Announced {
        let mut announced = Announced::new(Params::default(), Options::default());
        announced.packet(&SYNC);
        announced
    }

    #[test]
    fn options_are_believed_at_once_before_anything_is_traced() {
        let mut announced = Announced::new(Params::default(), Options::default());
        announced.support(&announces(true));
        assert!(!announced.waits_for_sync() && !announced.fault() && announced.options().full_address);
        let mut announced = tracing();
        announced.support(&Support { qual_status: QualStatus::EndedRep, ..announces(false) });
        announced.support(&announces(true));
        assert!(!announced.packet(&BRANCHES) && announced.options().full_address);
    }

    #[test]
    fn a_change_while_tracing_goes_on_needs_a_sync_packet_after_it() {
        let mut announced = tracing();
        announced.support(&announces(true));
        assert!(announced.waits_for_sync() && announced.options().full_address);
        assert!(announced.packet(&BRANCHES) && !announced.options().full_address);
    }

    #[test]
    fn a_change_is_taken_back_at_a_fault_before_the_second_sync_packet_and_not_after_it() {
        let mut announced = tracing();
        announced.support(&announces(true));
        assert!(!announced.packet(&SYNC) && !announced.packet(&BRANCHES));
        let mut doubted = announced;
        assert!(doubted.fault() && !doubted.options().full_address);
        announced.packet(&SYNC);
        assert!(!announced.fault() && announced.options().full_address);
    }

    #[test]
    fn two_changes_that_are_doubted_are_taken_back_together() {
        let mut announced = tracing();
        announced.support(&announces(true));
        let options = Options { implicit_exception: true, ..Options::default() };
        announced.support(&Support { options, qual_status: QualStatus::EndedRep, ..Support::default() });
        announced.support(&Support { options, ..announces(true) });
        assert!(announced.fault());
        assert_eq!(announced.options(), &Options::default());
    }
}
