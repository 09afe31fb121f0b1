//! Numbers, texts and bytes one after the other, for what is carried to another process: profiles, and what is handed over
//! between the parts of a source. Numbers have seven bits a byte, the lowest first.

use backsight::core::{Address, AddressSpace, Isa, leb128};
use backsight::isa::{Class, Flags};

const ISAS: [Isa; 7] = [Isa::A64, Isa::A32, Isa::T32, Isa::Rv32, Isa::Rv64, Isa::ThumbEe, Isa::Jazelle];

const CLASSES: [Class; 7] = [
    Class::Other,
    Class::DirectBranch,
    Class::IndirectBranch,
    Class::Isb,
    Class::DataBarrier,
    Class::Wait,
    Class::TransactionStart,
];

/// What is known of the last instruction of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastInstruction {
    pub isa: Isa,
    pub class: Class,
    pub flags: Flags,
    pub size: u8,
}

/// Writes.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub bytes: Vec<u8>,
}

impl Writer {
    pub fn number(&mut self, number: u64) {
        leb128::write(number, |byte| self.bytes.push(byte));
    }

    pub fn numbers<const N: usize>(&mut self, numbers: [u64; N]) {
        numbers.into_iter().for_each(|number| self.number(number));
    }

    pub fn flag(&mut self, flag: bool) {
        self.bytes.push(flag.into());
    }

    pub fn optional(&mut self, number: Option<u64>) {
        self.flag(number.is_some());
        number.into_iter().for_each(|number| self.number(number));
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub fn address(&mut self, address: Option<Address>) {
        self.optional(address.map(|address| address.0));
    }

    pub fn space(&mut self, space: AddressSpace) {
        self.number(u64::from(space.view()) | u64::from(space.process()) << 8);
    }

    pub fn last_instruction(&mut self, last: LastInstruction) {
        let LastInstruction { isa, class, flags, size } = last;
        self.one_of(&ISAS, isa);
        self.one_of(&CLASSES, class);
        let Flags { link, returns, exception_return, conditional, unmarked, load, store, undefined } = flags;
        let flags = [link, returns, exception_return, conditional, unmarked, load, store, undefined];
        self.bytes.push(flags.iter().rev().fold(0, |bits, &flag| bits << 1 | u8::from(flag)));
        self.bytes.push(size);
    }

    /// One of a list that both sides know.
    pub fn one_of<T: PartialEq>(&mut self, all: &[T], one: T) {
        let number = all.iter().position(|known| *known == one);
        self.bytes.push(number.and_then(|number| u8::try_from(number).ok()).unwrap_or(u8::MAX));
    }

    /// How many, and then each of them.
    pub fn list<T>(&mut self, items: impl ExactSizeIterator<Item = T>, mut each: impl FnMut(&mut Self, T)) {
        self.number(items.len() as u64);
        items.for_each(|item| each(self, item));
    }
}

/// Reads what a [`Writer`] wrote; `None` where that is not what is there.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    pub fn number(&mut self) -> Option<u64> {
        leb128::read(|| self.byte().ok_or(())).ok().flatten()
    }

    /// A number that has to fit.
    pub fn narrow<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    /// A number below a limit: of something in a list.
    pub fn index(&mut self, limit: usize) -> Option<u32> {
        self.narrow().filter(|&number: &u32| (number as usize) < limit)
    }

    pub fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Something that may be missing: `None` within says that it is.
    pub fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Some(None) }
    }

    pub fn bytes(&mut self) -> Option<&'b [u8]> {
        let length = self.narrow()?;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    pub fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    pub fn address(&mut self) -> Option<Option<Address>> {
        Some(self.optional(Self::number)?.map(Address))
    }

    pub fn space(&mut self) -> Option<AddressSpace> {
        let number = self.narrow::<u32>()?;
        Some(AddressSpace::from_view(number as u8).in_process(number >> 8))
    }

    pub fn last_instruction(&mut self) -> Option<LastInstruction> {
        let (isa, class) = (self.one_of(&ISAS)?, self.one_of(&CLASSES)?);
        let bits = self.byte()?;
        let [link, returns, exception_return, conditional, unmarked, load, store, undefined] =
            std::array::from_fn(|bit| bits >> bit & 1 == 1);
        let flags = Flags { link, returns, exception_return, conditional, unmarked, load, store, undefined };
        Some(LastInstruction { isa, class, flags, size: self.byte()? })
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        all.get(usize::from(self.byte()?)).copied()
    }

    /// Each element takes at least a byte: a count that is too large does not take memory.
    pub fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.narrow::<usize>()?;
        (count <= self.rest.len()).then(|| (0..count).map(|_| read(self)).collect())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let numbers = [0, 1, 0x7F, 0x80, 0x3FFF, 0x4000, u64::MAX >> 1, u64::MAX];
        let mut writer = Writer::default();
        writer.list(numbers.iter(), |writer, &number| writer.optional(Some(number)));
        writer.optional(None);
        writer.text("früh");
        let mut reader = Reader::new(&writer.bytes);
        assert_eq!(reader.list(|reader| reader.optional(Reader::number)), Some(numbers.map(Some).to_vec()));
        assert_eq!(reader.optional(Reader::number), Some(None));
        assert_eq!(reader.text().as_deref(), Some("früh"));
        assert!(reader.is_at_end() && reader.number().is_none());
    }

    #[test]
    fn what_nobody_wrote_is_refused() {
        let too_long = [0xFF; 11];
        assert_eq!(Reader::new(&too_long).number(), None);
        let too_large = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2];
        assert_eq!(Reader::new(&too_large).number(), None);
        let many = [0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 1];
        assert_eq!(Reader::new(&many).list(Reader::number), None);
        assert_eq!(Reader::new(&many).bytes(), None);
        assert_eq!(Reader::new(&[2]).flag(), None);
    }
}
