//! The context, and what a decoder knows of it.

use backsight_arm::etm4::{Config, Context as ContextPacket};
use backsight_core::{Context, Isa};

/// The context of what executes.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownContext {
    pub now: Context,
    /// What a decoder knows of it; `None`: nothing.
    pub sent: Option<ContextPacket>,
    /// It may know less than there is.
    pub changed: bool,
    pub in_transaction: bool,
}

impl KnownContext {
    pub fn new(now: Context) -> Self {
        Self { now, sent: None, changed: true, in_transaction: false }
    }

    /// Another one; how wide the processor executes, instructions say.
    pub fn change(&mut self, context: &Context) {
        self.now = Context { wide: self.now.wide, ..*context };
        self.changed = true;
    }

    /// An instruction of this instruction set executes.
    #[inline]
    pub fn arrive(&mut self, isa: Isa) {
        let wide = isa == Isa::A64;
        self.changed |= self.now.wide != wide;
        self.now.wide = wide;
    }

    /// Would an instruction of this instruction set change nothing, and does a decoder know the context?
    #[inline(always)]
    pub fn is_settled(&self, isa: Isa) -> bool {
        self.now.wide == (isa == Isa::A64) && !self.changed && self.sent.is_some()
    }

    /// The context as far as a decoder does not know it; it will be reported. Identifiers only where they are traced and
    /// have changed.
    pub fn take_unsent(&mut self, config: &Config) -> Option<ContextPacket> {
        let vmid_mask = u32::MAX >> (32 - 8 * u32::from(config.vmid_bytes()).clamp(1, 4));
        let vmid = config.vmid().then(|| self.now.vmid.unwrap_or(0) & vmid_mask);
        let context_id = config.context_id().then(|| self.now.context_id.unwrap_or(0) as u32);
        let Context { privilege, wide, .. } = self.now;
        let (level, security) = (privilege.level() & 3, privilege.security());
        let whole = ContextPacket { level, security, wide, vmid, context_id };
        self.changed = false;
        match self.sent.replace(whole) {
            Some(sent) if sent == whole => None,
            Some(sent) => Some(ContextPacket {
                vmid: vmid.filter(|_| sent.vmid != vmid),
                context_id: context_id.filter(|_| sent.context_id != context_id),
                ..whole
            }),
            None => Some(whole),
        }
    }
}
