//! How users name a file of code: `FILE` or `FILE@ADDRESS`.

use std::ffi::OsStr;
use std::path::PathBuf;

use backsight_core::Address;

/// A file, and where it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSpec {
    /// The file.
    pub file: PathBuf,
    /// Where it was loaded: needed for a raw dump, and for a relocatable ELF file that was not loaded at 0.
    pub address: Option<Address>,
}

impl ImageSpec {
    /// Reads `FILE` or `FILE@ADDRESS`; the address is decimal, or hexadecimal with 0x. An `@` that no number follows
    /// belongs to the name.
    pub fn parse(text: &str) -> Self {
        match text.rsplit_once('@').map(|(file, address)| (file, number(address))) {
            Some((file, Some(address))) if !file.is_empty() => {
                Self { file: file.into(), address: Some(Address(address)) }
            }
            _ => Self { file: text.into(), address: None },
        }
    }
}

impl std::str::FromStr for ImageSpec {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::parse(text))
    }
}

/// File names need not be text; the address is.
impl From<&OsStr> for ImageSpec {
    fn from(text: &OsStr) -> Self {
        match text.to_str() {
            Some(text) => Self::parse(text),
            None => from_bytes(text),
        }
    }
}

#[cfg(unix)]
fn from_bytes(text: &OsStr) -> ImageSpec {
    use std::os::unix::ffi::OsStrExt;
    let bytes = text.as_bytes();
    let sign = bytes.iter().rposition(|&byte| byte == b'@').filter(|&sign| sign > 0);
    let address = sign.and_then(|sign| number(std::str::from_utf8(&bytes[sign + 1..]).ok()?));
    match (sign, address) {
        (Some(sign), Some(address)) => {
            ImageSpec { file: OsStr::from_bytes(&bytes[..sign]).into(), address: Some(Address(address)) }
        }
        _ => ImageSpec { file: text.into(), address: None },
    }
}

#[cfg(not(unix))]
fn from_bytes(text: &OsStr) -> ImageSpec {
    ImageSpec { file: text.into(), address: None }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(&digits.replace('_', ""), 16).ok(),
        None if text.starts_with(|first: char| first.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_name_that_is_no_text_may_have_an_address() {
        use std::os::unix::ffi::OsStrExt;
        for (text, file, address) in [
            (&b"caf\xE9.elf"[..], &b"caf\xE9.elf"[..], None),
            (b"caf\xE9@0x40", b"caf\xE9", Some(0x40)),
            (b"a@caf\xE9", b"a@caf\xE9", None),
            (b"plain@0x40", b"plain", Some(0x40)),
        ] {
            let expected = ImageSpec { file: OsStr::from_bytes(file).into(), address: address.map(Address) };
            assert_eq!(ImageSpec::from(OsStr::from_bytes(text)), expected);
        }
    }

    #[test]
    fn the_address_is_behind_the_last_at_sign() {
        for (text, file, address) in [
            ("vmlinux", "vmlinux", None),
            ("dump.bin@0x8000_0000", "dump.bin", Some(0x8000_0000)),
            ("lib@2.so@4096", "lib@2.so", Some(4096)),
            ("user@host", "user@host", None),
            ("lib@", "lib@", None),
            ("@0x10", "@0x10", None),
            ("x@0xFFFFFFFFFFFFFFFF", "x", Some(u64::MAX)),
            ("x@0x10000000000000000", "x@0x10000000000000000", None),
        ] {
            let expected = ImageSpec { file: file.into(), address: address.map(Address) };
            assert_eq!(ImageSpec::parse(text), expected, "{text}");
        }
    }
}
