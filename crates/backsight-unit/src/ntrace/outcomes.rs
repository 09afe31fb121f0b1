//! Outcomes of branches that an encoder has not sent yet, and repetitions among them.
//!
//! A full history may be followed by the same again: it is then sent once, with HREPEAT. Loops whose outcomes have a
//! short period repeat in a full history only by luck, so a slightly shorter one, of a multiple of four outcomes, is
//! tried too. To see a repetition two histories must have come: that many outcomes wait.

use backsight_riscv::ntrace::{History, REPETITION_BITS, Resource};

/// Most repetitions in one message.
const MOST_REPEATS: u32 = (1 << REPETITION_BITS) - 1;

/// Outcomes that wait.
#[derive(Clone, Debug)]
pub(super) struct Outcomes {
    /// Outcomes of a full history.
    full: u32,
    /// Outcomes of the shorter one that is tried too; 0: none.
    shorter: u32,
    repeat: bool,
    /// What repeats, and how often it occurred.
    repeated: Option<(History, u32)>,
    /// After it: the newest outcome in bit 0.
    bits: u128,
    len: u32,
}

impl Outcomes {
    /// For histories of `full` outcomes, 1 to 62.
    pub(super) fn new(full: u8, repeat: bool) -> Self {
        let full = u32::from(full.clamp(1, 62));
        Self { full, shorter: full & !3, repeat, repeated: None, bits: 0, len: 0 }
    }

    /// Takes an outcome; gives what is to be sent.
    pub(super) fn push(&mut self, taken: bool) -> Option<Resource> {
        self.bits = self.bits << 1 | u128::from(taken);
        self.len += 1;
        if !self.repeat {
            return (self.len == self.full).then(|| self.take_first());
        }
        loop {
            let Some((history, times)) = self.repeated else {
                if self.len < 2 * self.full {
                    return None;
                }
                if ![self.full, self.shorter].into_iter().any(|length| self.find_repetition(length)) {
                    return Some(self.take_first());
                }
                continue;
            };
            // More than one repetition may wait: two full histories hold more than two of the shorter ones.
            let rest = self.len.checked_sub(history.len())?;
            if self.part(rest, history.len()) != history || times == MOST_REPEATS {
                return self.take_repeated();
            }
            self.repeated = Some((history, times + 1));
            self.keep(rest);
        }
    }

    /// Do the oldest `length` outcomes come twice?
    fn find_repetition(&mut self, length: u32) -> bool {
        let rest = self.len - 2 * length;
        let (first, second) = (self.part(rest + length, length), self.part(rest, length));
        let found = length > 0 && first == second;
        if found {
            self.repeated = Some((first, 2));
            self.keep(rest);
        }
        found
    }

    /// `length` outcomes above the newest `above`.
    const fn part(&self, above: u32, length: u32) -> History {
        let mask = (1u64 << length) - 1;
        History((self.bits >> above) as u64 & mask | 1 << length)
    }

    const fn keep(&mut self, newest: u32) {
        self.bits &= (1 << newest) - 1;
        self.len = newest;
    }

    /// The oldest outcomes, a full history of them.
    fn take_first(&mut self) -> Resource {
        let rest = self.len - self.full;
        let first = self.part(rest, self.full);
        self.keep(rest);
        Resource::History(first)
    }

    fn take_repeated(&mut self) -> Option<Resource> {
        self.repeated.take().map(|(history, times)| Resource::HistoryRepeat { history, times })
    }

    /// What must be sent before a message that holds the rest. To be called until it gives nothing more.
    pub(super) fn before_rest(&mut self) -> Option<Resource> {
        self.take_repeated().or_else(|| (self.len >= self.full).then(|| self.take_first()))
    }

    /// The rest, after what [`Self::before_rest`] gave.
    pub(super) fn take_rest(&mut self) -> History {
        let rest = self.part(0, self.len);
        self.keep(0);
        rest
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.repeated = None;
        self.keep(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent for these outcomes: history and times.
    fn sent(outcomes: &mut Outcomes, bits: impl IntoIterator<Item = bool>) -> Vec<(u64, u32)> {
        let listed = |resource| match resource {
            Resource::History(history) => (history.0, 1),
            Resource::HistoryRepeat { history, times } => (history.0, times),
            other => panic!("{other:?}"),
        };
        let mut sent: Vec<_> =
            bits.into_iter().filter_map(|taken| outcomes.push(taken).map(listed)).collect();
        sent.extend(std::iter::from_fn(|| outcomes.before_rest()).map(listed));
        sent
    }

    #[test]
    fn a_full_history_is_preferred_to_the_shorter_one() {
        let mut outcomes = Outcomes::new(5, true);
        assert_eq!(sent(&mut outcomes, [true; 17]), [(0b11_1111, 3)]);
        assert_eq!(outcomes.take_rest(), History(0b111));
    }

    #[test]
    fn a_short_period_repeats_in_the_shorter_history() {
        let mut outcomes = Outcomes::new(5, true);
        assert_eq!(sent(&mut outcomes, (0..13).map(|n| n % 2 == 0)), [(0b1_1010, 3)]);
        assert_eq!(outcomes.take_rest(), History(0b11));
    }

    #[test]
    fn outcomes_without_repetition_are_sent_one_history_after_the_other() {
        let mut outcomes = Outcomes::new(3, true);
        let bits = [true, false, false, false, true, true, false, false];
        assert_eq!(sent(&mut outcomes, bits), [(0b1100, 1), (0b1011, 1)]);
        assert_eq!(outcomes.take_rest(), History(0b100));
    }

    #[test]
    fn without_repetition_a_full_history_is_sent_at_once() {
        let mut outcomes = Outcomes::new(2, false);
        assert_eq!(sent(&mut outcomes, [true; 5]), [(0b111, 1), (0b111, 1)]);
        assert_eq!(outcomes.take_rest(), History(0b11));
    }

    #[test]
    fn every_length_of_a_history_gives_the_outcomes_back() {
        for full in 1..=62 {
            for (period, count) in [(1, 400), (2, 401), (3, 402), (4, 403), (5, 700), (7, 700), (64, 300)] {
                let taken = |n: u32| n.is_multiple_of(period) || n % 97 == 13;
                let mut outcomes = Outcomes::new(full, true);
                let mut bits: Vec<bool> = Vec::new();
                for (history, times) in sent(&mut outcomes, (0..count).map(taken)) {
                    let history = History(history);
                    assert!((1..=u32::from(full)).contains(&history.len()));
                    (0..times).for_each(|_| bits.extend(history.outcomes()));
                }
                let rest = outcomes.take_rest();
                assert!(rest.len() < u32::from(full));
                bits.extend(rest.outcomes());
                assert_eq!(bits, (0..count).map(taken).collect::<Vec<_>>(), "{full} bits, period {period}");
            }
        }
    }
}
