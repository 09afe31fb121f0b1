//! What can be wrong, and how it is said.

use std::fmt;

use crate::listing::Printable;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The result cannot be right, or there is none.
    Fatal,
    /// Something is missing in the result.
    Warning,
    /// Good to know.
    Note,
}

impl Severity {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fatal => "problem",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// Makes the list of causes with their names.
macro_rules! causes {
    ($($(#[$doc:meta])* $cause:ident = $name:literal,)*) => {
        /// What was found. They stand in the order in which data flows: what is wrong early explains what is wrong later.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Cause {
            $($(#[$doc])* $cause,)*
        }

        impl Cause {
            /// The word for it, for scripts.
            pub fn name(self) -> &'static str {
                match self { $(Self::$cause => $name,)* }
            }
        }
    };
}

causes! {
    /// A file, or the bytes of a buffer, are no trace.
    NoTrace = "no-trace",
    /// A bare file: nothing says what it holds.
    BareFile = "bare-file",
    /// The metadata of a capture cannot be read.
    BadMetadata = "bad-metadata",
    /// Files of the capture are missing.
    MissingFiles = "missing-files",
    /// A buffer holds nothing, or nothing but one value.
    EmptyBuffer = "empty-buffer",
    /// The recorder or the kernel lost something.
    Losses = "losses",
    /// The bytes are framed in another way.
    WrongFraming = "wrong-framing",
    /// Bytes of trace IDs that nobody describes.
    UnknownIds = "unknown-ids",
    /// Another protocol fits.
    WrongProtocol = "wrong-protocol",
    /// Other settings fit, or the given ones cannot be true.
    WrongConfiguration = "wrong-configuration",
    /// A source never says where it begins.
    NoSynchronisation = "no-synchronisation",
    /// Frames or packets are damaged.
    Damage = "damage",
    /// The trace unit could not keep up.
    Overflow = "overflow",
    /// Lines of the event log are not understood.
    BadLog = "bad-log",
    /// Nobody says what CONTEXTIDR means.
    UnknownContextLayout = "unknown-context-layout",
    /// Contexts that nobody declared.
    UndeclaredContexts = "undeclared-contexts",
    /// The log and the trace have different clocks, or the trace has none.
    NoCommonTime = "no-common-time",
    /// Programs are not those that ran.
    OtherBuild = "other-build",
    /// Code that ran is in no image.
    MissingCode = "missing-code",
    /// Code and trace contradict each other.
    WrongCode = "wrong-code",
    /// Much of a buffer was never written.
    UnusedBuffer = "unused-buffer",
    /// Sources that are described and have no data.
    SilentSources = "silent-sources",
    /// Programs without names or lines.
    NoDebugInformation = "no-debug-information",
    /// Anything that was doubtful when the capture was opened.
    Doubt = "doubt",
}

/// One thing that is wrong, with what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is.
    pub cause: Cause,
    /// In words.
    pub what: String,
    /// What to do about it; may be empty.
    pub advice: String,
    /// Commands to go on with, in this order; mostly none.
    pub commands: Vec<String>,
}

impl Finding {
    pub(super) fn new(
        severity: Severity,
        cause: Cause,
        what: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let (what, advice, commands) = (what.into(), advice.into(), Vec::new());
        Self { severity, cause, what, advice, commands }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.severity.name(), self.cause.name(), Printable(&self.what))?;
        if !self.advice.is_empty() {
            write!(f, "\n    to do: {}", Printable(&self.advice))?;
        }
        self.commands.iter().try_for_each(|command| write!(f, "\n    run: {}", Printable(command)))
    }
}
