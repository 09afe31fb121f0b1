//! Numbers and text in the byte order of the machine that recorded them.

/// Reads fields one after the other. What lies beyond the end is `None`.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    big_endian: bool,
}

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8], big_endian: bool) -> Self {
        Self { rest: bytes, big_endian }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(bytes)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    pub fn u16(&mut self) -> Option<u16> {
        let bytes = self.bytes(2)?.try_into().ok()?;
        Some(if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    pub fn u32(&mut self) -> Option<u32> {
        let bytes = self.bytes(4)?.try_into().ok()?;
        Some(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    pub fn u64(&mut self) -> Option<u64> {
        let bytes = self.bytes(8)?.try_into().ok()?;
        Some(if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// All whole words that are left.
    pub fn words(mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.u64()).collect()
    }

    /// Text up to the first zero byte, or to the end.
    pub fn text(&self) -> String {
        text(self.rest)
    }

    /// Text with its length before it, as features have it.
    pub fn counted_text(&mut self) -> Option<String> {
        let length = self.u32()?;
        self.bytes(usize::try_from(length).ok()?).map(text)
    }
}

/// Text up to the first zero byte.
pub(super) fn text(bytes: &[u8]) -> String {
    let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// The digits of a build identifier. Writers pad it to 20 bytes: zeros at the end say nothing.
pub(super) fn build_id(bytes: &[u8]) -> Option<String> {
    let length = bytes.iter().rposition(|&byte| byte != 0)? + 1;
    Some(bytes[..length].iter().map(|byte| format!("{byte:02x}")).collect())
}
