//! Conditional instructions that are no branches, and what became of them.
//!
//! A trace unit may write an element for each such instruction (C) and later one for its result (R). Keys pair
//! them: both count up modulo the number of keys, and keys beyond that number are special and used once. The
//! flow does not depend on them.

use backsight_arm::etm4::{ConditionalResult, Config, Packet};

use crate::Outcome;
use crate::speculation::Overrun;

/// The running keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conditional {
    keys: u32,
    flags: bool,
    instruction: u32,
    result: u32,
}

impl Conditional {
    pub fn new(config: &Config) -> Self {
        Self {
            keys: config.conditional_keys().max(1),
            flags: config.conditional_flags(),
            instruction: 0,
            result: 0,
        }
    }

    pub fn reset(&mut self) {
        self.instruction = 0;
        self.result = 0;
    }

    /// Outstanding instructions get no result.
    pub fn flush(&mut self) {
        self.result = self.instruction;
    }

    fn advance(&self, key: u32, steps: u32) -> u32 {
        ((u64::from(key) + u64::from(steps)) % u64::from(self.keys)) as u32
    }

    /// Takes a packet; packets of other kinds change nothing.
    pub fn packet(
        &mut self,
        packet: Packet,
        sink: &mut impl FnMut(u32, Outcome) -> Result<(), Overrun>,
    ) -> Result<(), Overrun> {
        match packet {
            Packet::ConditionalInstructionF1 { key } if key < self.keys => self.instruction = key,
            Packet::ConditionalInstructionF1 { .. } => self.instruction = self.advance(self.instruction, 1),
            Packet::ConditionalInstructionF2(kind) => {
                self.instruction = self.advance(self.instruction, u32::from(kind != 1));
            }
            Packet::ConditionalInstructionF3 { count, .. } => {
                self.instruction = self.advance(self.instruction, u32::from(count));
            }
            Packet::ConditionalFlush => self.flush(),
            Packet::ConditionalResultF1 { first, second } => {
                self.keyed(first, sink)?;
                if let Some(second) = second {
                    self.keyed(second, sink)?;
                }
            }
            Packet::ConditionalResultF2 { skip, token } => {
                self.result = self.advance(self.result, 1 + u32::from(skip));
                self.instruction = self.result;
                return sink(self.result, self.token(token.into()));
            }
            Packet::ConditionalResultF3(tokens) => return self.tokens(tokens, sink),
            Packet::ConditionalResultF4(token) => {
                let key = self.advance(self.result, self.keys - 1);
                return sink(key, self.token(token.into()));
            }
            _ => {}
        }
        Ok(())
    }

    fn keyed(
        &mut self,
        set: ConditionalResult,
        sink: &mut impl FnMut(u32, Outcome) -> Result<(), Overrun>,
    ) -> Result<(), Overrun> {
        self.result = if set.key < self.keys { set.key } else { self.advance(self.result, 1) };
        if set.implied {
            self.instruction = self.result;
        }
        let outcome = match (self.flags, set.result & 1) {
            (true, _) => Outcome::Flags(set.result & 0xF),
            (false, 0) => Outcome::Failed,
            (false, _) => Outcome::Passed,
        };
        sink(set.key, outcome)
    }

    /// A string of tokens, each for the next key, up to the end token.
    fn tokens(
        &mut self,
        mut tokens: u16,
        sink: &mut impl FnMut(u32, Outcome) -> Result<(), Overrun>,
    ) -> Result<(), Overrun> {
        let mut left = 12;
        while left >= 2 {
            let long = self.flags && tokens & 3 == 3;
            let size = if long { 4 } else { 2 };
            let token = tokens & if long { 0xF } else { 3 };
            if left < size || token == if self.flags { 0xF } else { 3 } {
                break;
            }
            self.result = self.advance(self.result, 1);
            sink(self.result, self.token(token))?;
            tokens >>= size;
            left -= size;
        }
        Ok(())
    }

    fn token(&self, token: u16) -> Outcome {
        const C: u8 = 2;
        const Z: u8 = 4;
        const N: u8 = 8;
        match (self.flags, token) {
            (false, 0) => Outcome::Failed,
            (false, 1) => Outcome::Passed,
            (true, 0) => Outcome::Flags(C),
            (true, 1) => Outcome::Flags(N),
            (true, 2) => Outcome::Flags(Z | C),
            (true, 0b0011) => Outcome::Flags(N | C),
            (true, 0b0111) => Outcome::Flags(0),
            (true, 0b1011) => Outcome::Flags(Z),
            _ => Outcome::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of some packets with 8 keys; `flags` says what a result is.
    fn results(flags: bool, packets: &[Packet]) -> Vec<(u32, Outcome)> {
        let mut conditional = Conditional { keys: 8, flags, instruction: 0, result: 0 };
        let mut results = Vec::new();
        for &packet in packets {
            let taken = conditional.packet(packet, &mut |key, outcome| {
                results.push((key, outcome));
                Ok(())
            });
            assert_eq!(taken, Ok(()));
        }
        results
    }

    #[test]
    fn results_count_their_keys_up_and_around() {
        let two = Packet::ConditionalResultF2 { skip: true, token: 0 };
        let one = Packet::ConditionalResultF2 { skip: false, token: 1 };
        assert_eq!(
            results(false, &[one, two, two, two, one, Packet::ConditionalResultF4(2)]),
            [
                (1, Outcome::Passed),
                (3, Outcome::Failed),
                (5, Outcome::Failed),
                (7, Outcome::Failed),
                (0, Outcome::Passed),
                (7, Outcome::Unknown)
            ]
        );
    }

    #[test]
    fn a_string_of_tokens_ends_at_the_end_token() {
        // From bit 0: passed, failed, end; the rest is nothing.
        let tokens = Packet::ConditionalResultF3(0b01_11_00_01);
        assert_eq!(results(false, &[tokens]), [(1, Outcome::Passed), (2, Outcome::Failed)]);
        // From bit 0: C, then the 4-bit token for Z, then N, then end.
        // One group a token.
        #[allow(clippy::unusual_byte_groupings)]
        let tokens = Packet::ConditionalResultF3(0b1111_01_1011_00);
        assert_eq!(
            results(true, &[tokens]),
            [(1, Outcome::Flags(2)), (2, Outcome::Flags(4)), (3, Outcome::Flags(8))]
        );
    }

    #[test]
    fn a_special_key_is_given_and_the_running_key_counts_on() {
        let set = |key| ConditionalResult { key, result: 1, implied: true };
        let packet = Packet::ConditionalResultF1 { first: set(9), second: Some(set(4)) };
        let next = Packet::ConditionalResultF2 { skip: false, token: 1 };
        let passed = |key| (key, Outcome::Passed);
        assert_eq!(results(false, &[packet, next]), [passed(9), passed(4), passed(5)]);
    }

    #[test]
    fn a_flush_leaves_outstanding_instructions_without_a_result() {
        let three = Packet::ConditionalInstructionF3 { count: 3, repeat: false };
        let next = Packet::ConditionalResultF2 { skip: false, token: 1 };
        assert_eq!(results(false, &[three, Packet::ConditionalFlush, next]), [(4, Outcome::Passed)]);
    }
}
