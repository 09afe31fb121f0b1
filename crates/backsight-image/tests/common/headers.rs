//! ELF files made by hand, so that they can be wrong.

pub const ET_EXEC: u16 = 2;
pub const ET_DYN: u16 = 3;

/// What to put into the headers.
#[derive(Clone)]
pub struct Header {
    pub wide: bool,
    pub big: bool,
    pub kind: u16,
    /// Address, offset in the file, bytes in the file.
    pub segments: Vec<(u64, u64, u64)>,
}

impl Header {
    pub fn new(segments: &[(u64, u64, u64)]) -> Self {
        Self { wide: true, big: false, kind: ET_EXEC, segments: segments.to_vec() }
    }

    /// The file: headers, then bytes 0, 1, 2 … up to `size`.
    pub fn file(&self, size: usize) -> Vec<u8> {
        let mut out = Bytes { bytes: vec![0x7F, b'E', b'L', b'F'], header: self.clone() };
        out.bytes.extend([1 + u8::from(self.wide), 1 + u8::from(self.big), 1]);
        out.bytes.resize(16, 0);
        out.half(self.kind);
        out.half(183);
        out.word(1);
        let header_size: u16 = if self.wide { 64 } else { 52 };
        out.address(0x1234); // entry
        out.address(u64::from(header_size)); // program headers
        out.address(0); // section headers
        out.word(0);
        out.half(header_size);
        out.half(if self.wide { 56 } else { 32 });
        out.half(self.segments.len() as u16);
        for _ in 0..3 {
            out.half(0);
        }
        for &(address, offset, length) in &self.segments {
            out.word(1); // PT_LOAD
            if self.wide {
                out.word(5);
            }
            out.address(offset);
            out.address(address);
            out.address(address);
            out.address(length);
            out.address(length.saturating_add(16));
            if !self.wide {
                out.word(5);
            }
            out.address(4096);
        }
        while out.bytes.len() < size {
            let byte = out.bytes.len() as u8;
            out.bytes.push(byte);
        }
        out.bytes
    }
}

struct Bytes {
    bytes: Vec<u8>,
    header: Header,
}

impl Bytes {
    fn half(&mut self, value: u16) {
        self.bytes.extend(if self.header.big { value.to_be_bytes() } else { value.to_le_bytes() });
    }

    fn word(&mut self, value: u32) {
        self.bytes.extend(if self.header.big { value.to_be_bytes() } else { value.to_le_bytes() });
    }

    fn address(&mut self, value: u64) {
        match self.header.wide {
            true if self.header.big => self.bytes.extend(value.to_be_bytes()),
            true => self.bytes.extend(value.to_le_bytes()),
            false => self.word(value as u32),
        }
    }
}
