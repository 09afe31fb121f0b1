//! Lines of exceptions.

use backsight_core::describe::Name;

use crate::instruction::mode;
use crate::packet::{Exception, ExceptionKind, Line, Mode};
use crate::words::{Cursor, hex};

/// What names of Fast Models begin with.
const CORE_EVENT: &[u8] = b"CoreEvent_";

/// A line that begins with `E`: the cursor is behind that. `None` for signals and other text.
pub(crate) fn e(cursor: &mut Cursor<'_>) -> Option<Line> {
    let address = cursor.hex()?;
    if !cursor.physical() {
        return None;
    }
    let mut number = cursor.word()?;
    if mode(number) != Mode::default() {
        number = cursor.word()?;
    }
    let number = hex(number)?;
    let word = cursor.word()?;
    let name = word.strip_prefix(CORE_EVENT).unwrap_or(word);
    let (address, number) = (Some(address), Some(number));
    Some(Line::Exception(Exception { address, number, kind: kind(name), name: Name::new(name) }))
}

/// A line that begins with `EXC`: the cursor is behind that.
pub(crate) fn exc(cursor: &mut Cursor<'_>) -> Line {
    let mut number = None;
    if cursor.mark(b'[') {
        number = cursor.word().and_then(|word| hex(word.strip_prefix(b"0x").unwrap_or(word)));
        cursor.mark(b']');
    }
    let name = cursor.word().unwrap_or(b"EXC");
    let kind = match kind(name) {
        // The last digits of a vector of AArch64 say what comes by it.
        ExceptionKind::Other if number.is_some_and(|number| number >= 0x200) => {
            [ExceptionKind::Synchronous, ExceptionKind::Irq, ExceptionKind::Fiq, ExceptionKind::SystemError]
                [(number.unwrap_or(0) >> 7 & 3) as usize]
        }
        kind => kind,
    };
    Line::Exception(Exception { address: None, number, kind, name: Name::new(name) })
}

/// `ES Reset`.
pub(crate) fn reset() -> Exception {
    Exception { address: None, number: None, kind: ExceptionKind::Reset, name: Name::new(b"Reset") }
}

/// What an exception of this name is.
fn kind(name: &[u8]) -> ExceptionKind {
    let mut lower = [0; 48];
    lower.iter_mut().zip(name).for_each(|(to, from)| *to = from.to_ascii_lowercase());
    let has = |part: &str| lower.windows(part.len()).any(|window| window == part.as_bytes());
    match () {
        () if has("modechange") => ExceptionKind::ModeChange,
        () if has("reset") => ExceptionKind::Reset,
        () if has("swi") || has("svc") || has("hvc") || has("smc") || has("supervisor") => {
            ExceptionKind::Call
        }
        () if has("undef") => ExceptionKind::Undefined,
        () if has("prefetch") || has("instructionabort") || has("instrabort") => ExceptionKind::PrefetchAbort,
        () if has("dataabort") => ExceptionKind::DataAbort,
        () if has("serror") || has("async") => ExceptionKind::SystemError,
        () if has("irq") => ExceptionKind::Irq,
        () if has("fiq") => ExceptionKind::Fiq,
        () if has("sync") => ExceptionKind::Synchronous,
        () => ExceptionKind::Other,
    }
}
