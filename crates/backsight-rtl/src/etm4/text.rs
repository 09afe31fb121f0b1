//! Small pieces of SystemVerilog text.

/// A name in capitals: `AddressShortIs0` becomes `ADDRESS_SHORT_IS0`.
pub fn capitals(name: &str) -> String {
    let mut text = String::new();
    for (index, letter) in name.chars().enumerate() {
        if letter.is_ascii_uppercase() && index > 0 {
            text.push('_');
        }
        text.push(letter.to_ascii_uppercase());
    }
    text
}

/// The fewest `casez` patterns that match the bytes from `first` to `last`.
pub fn patterns(first: u8, last: u8) -> String {
    let mut all = Vec::new();
    let (mut at, end) = (u16::from(first), u16::from(last) + 1);
    while at < end {
        let mut bits = 0;
        while bits < 8 && at & (1 << bits) == 0 && at + (2 << bits) <= end {
            bits += 1;
        }
        all.push(pattern(at as u8, bits));
        at += 1 << bits;
    }
    all.join(", ")
}

/// A byte whose lowest bits do not matter.
fn pattern(byte: u8, free: u8) -> String {
    let digit = |bit: u8| match (bit < free, byte >> bit & 1) {
        (true, _) => '?',
        (false, 0) => '0',
        (false, _) => '1',
    };
    let high: String = (4..8).rev().map(digit).collect();
    let low: String = (0..4).rev().map(digit).collect();
    format!("8'b{high}_{low}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(patterns: &str, byte: u8) -> usize {
        let one = |pattern: &str| {
            let digits: Vec<char> = pattern.trim_start_matches("8'b").chars().filter(|&c| c != '_').collect();
            digits.iter().zip((0..8).rev()).all(|(&digit, bit)| match digit {
                '?' => true,
                digit => (digit == '1') == (byte >> bit & 1 == 1),
            })
        };
        patterns.split(", ").filter(|pattern| one(pattern)).count()
    }

    #[test]
    fn patterns_match_the_bytes_of_their_range_once_and_no_others() {
        for (first, last) in [(0, 0), (0, 255), (0x71, 0x7F), (0xC0, 0xD4), (0x0C, 0x0D), (0x90, 0x92)] {
            let text = patterns(first, last);
            for byte in 0..=255 {
                assert_eq!(
                    matches(&text, byte),
                    usize::from((first..=last).contains(&byte)),
                    "{text} {byte:#x}"
                );
            }
        }
    }

    #[test]
    fn names_become_capitals() {
        assert_eq!(capitals("AddressShortIs0"), "ADDRESS_SHORT_IS0");
        assert_eq!(capitals("CycleCountF1"), "CYCLE_COUNT_F1");
    }
}
