//! What an index belongs to.

use std::io::Read;

use backsight_core::AddressSpace;
use backsight_image::Code as _;

use crate::{Buffer, Capture, Result};

/// Bytes of a sample, and samples of each buffer and file: to read all of them would take longer than an index saves.
const SAMPLE: usize = 1 << 12;
const SAMPLES: u64 = 16;

/// A capture with its code, as far as samples tell: an index of another one is never used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity(pub(crate) [u8; 16]);

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Capture {
    /// What an index of it belongs to: buffers, sources, their configuration and the code, by names, sizes and samples of the contents.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn identity(&self) -> Result<Identity> {
        let mut digest = self.digest_of_trace()?;
        digest_code(self, &mut digest)?;
        Ok(Identity(digest.finish()))
    }

    /// What an index of its trace alone belongs to, whatever its code is.
    ///
    /// # Errors
    /// If bytes cannot be read.
    pub fn identity_of_trace(&self) -> Result<Identity> {
        Ok(Identity(self.digest_of_trace()?.finish()))
    }

    fn digest_of_trace(&self) -> Result<Digest> {
        let mut digest = Digest::default();
        digest.text(env!("CARGO_PKG_VERSION"));
        for buffer in self.buffers() {
            digest.text(buffer.name());
            digest.text(&buffer.framing().to_string());
            digest.buffer(buffer)?;
            for start in buffer.starts.iter() {
                digest.number(start.offset);
                digest.number(start.time.unwrap_or(u64::MAX));
            }
            for source in buffer.sources().chain(&buffer.fallback) {
                digest.text(source.name());
                digest.number(source.id().get().into());
                digest.text(source.core().unwrap_or_default());
                digest.text(source.format());
                digest.text(&source.configuration());
            }
        }
        Ok(digest)
    }
}

fn digest_code(capture: &Capture, digest: &mut Digest) -> Result {
    let code = capture.code()?;
    let mut images = Vec::new();
    for source in capture.buffers().iter().flat_map(Buffer::sources) {
        let image = code.of(source);
        // Most sources run the same code.
        if images.iter().any(|known| std::ptr::eq(*known, image)) {
            continue;
        }
        images.push(image);
        for module in image.modules() {
            digest.text(&module.name().to_string_lossy());
            let (first, last) = module.range();
            digest.number(first.0);
            digest.number(last.0);
            digest.number(module.bias());
            let dump = || image.bytes_at(AddressSpace::ANY, first).unwrap_or_default();
            digest.samples(module.contents().map_or_else(dump, |contents| &contents[..]));
        }
    }
    Ok(())
}

/// Two sums that depend on every byte and its place. They do not keep anyone from making another capture with the same.
struct Digest([u64; 2]);

impl Default for Digest {
    fn default() -> Self {
        Self([0x243F_6A88_85A3_08D3, 0x1319_8A2E_0370_7344])
    }
}

impl Digest {
    fn number(&mut self, number: u64) {
        let [one, other] = self.0;
        let one = (one ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let other = (other.rotate_left(23) ^ number).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
        self.0 = [one ^ one >> 29, other ^ other >> 31];
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.number(u64::from_le_bytes(word));
        }
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn samples(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        let step = (bytes.len() / SAMPLES as usize).max(SAMPLE);
        for at in (0..bytes.len()).step_by(step).chain([bytes.len().saturating_sub(SAMPLE)]) {
            let end = (at + SAMPLE).min(bytes.len());
            self.bytes(bytes.get(at..end).unwrap_or_default());
        }
    }

    fn buffer(&mut self, buffer: &Buffer) -> Result<()> {
        let Some(size) = buffer.size() else {
            let why = "its size is not known: it has no identity";
            return Err(crate::Error::misuse(format!("buffer {}: {why}", buffer.name())));
        };
        self.number(size);
        let step = (size / SAMPLES).max(SAMPLE as u64);
        let places = (0..SAMPLES).map(|number| number * step).take_while(|&at| at < size);
        let mut sample = Vec::with_capacity(SAMPLE);
        for at in places.chain([size.saturating_sub(SAMPLE as u64)]) {
            sample.clear();
            let read = buffer.open_at(at)?.take(SAMPLE as u64).read_to_end(&mut sample);
            read.map_err(|error| backsight_capture::Error::io(buffer.name(), &error))?;
            self.bytes(&sample);
        }
        Ok(())
    }

    fn finish(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let (one, other) = bytes.split_at_mut(8);
        one.copy_from_slice(&self.0[0].to_le_bytes());
        other.copy_from_slice(&self.0[1].to_le_bytes());
        bytes
    }
}
