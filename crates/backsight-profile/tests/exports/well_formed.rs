//! A strict reader of each format, as much of it as says whether a file is well-formed. Whatever names a profile has, what is
//! written must be. The fuzz target `hostile_names` uses these readers, too.

use std::io::Read;

use flate2::read::GzDecoder;

/// Panics if it is not.
pub fn check(format: &str, file: &[u8]) {
    match format {
        "llvm-binary" => llvm_binary(file),
        "gcc" => gcc(file),
        "pprof" => {
            let mut bytes = Vec::new();
            GzDecoder::new(file).read_to_end(&mut bytes).expect("gzip");
            fields(&bytes).into_iter().filter(|(number, _)| *number == 6).for_each(|(_, text)| {
                std::str::from_utf8(text).expect("a string of pprof");
            });
        }
        "perfetto" => fields(file).into_iter().for_each(|(number, packet)| {
            assert_eq!(number, 1, "a packet");
            fields(packet);
        }),
        "afl" => assert_eq!(file.len(), 1 << 16),
        _ => text(format, std::str::from_utf8(file).expect("text")),
    }
}

fn text(format: &str, file: &str) {
    assert!(file.is_empty() || file.ends_with('\n'), "{format}: the last line has an end");
    let is_json = matches!(format, "chrome" | "speedscope" | "firefox" | "paths" | "json");
    if !is_json {
        let harmful = |c: char| backsight::core::is_harmful(c) && c != '\n';
        assert_eq!(file.chars().find(|&c| harmful(c)), None, "{format}");
    }
    match format {
        "paths" => file.lines().for_each(json),
        _ if is_json => json(file),
        "functions" | "blocks" | "edges" | "branches" | "loops" => csv(format, file),
        "collapsed" => file.lines().for_each(collapsed),
        "callgrind" => file.lines().for_each(callgrind),
        "lcov" => lcov(file),
        "cobertura" => xml(file),
        "fdata" => file.lines().for_each(fdata),
        "llvm" => file.lines().for_each(llvm),
        "bolt" => file.lines().for_each(|line| {
            let words: Vec<_> = line.split(' ').collect();
            assert!(matches!(words[0], "B" | "F") && words[1..].iter().all(|word| is_hex(word)), "{line}");
        }),
        "profgen" | "autofdo" => file.lines().for_each(|line| {
            let plain = line.replace("->", "-").replace([':', '-'], "");
            assert!(is_hex(&plain) || format == "autofdo" && line.starts_with("// "), "{line:?}");
        }),
        other => panic!("no reader for {other}: write one"),
    }
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn json(text: &str) {
    serde_json::from_str::<serde_json::Value>(text).expect("JSON");
}

/// Every row has as many fields as the first.
fn csv(format: &str, file: &str) {
    let mut expected = None;
    for line in file.lines() {
        let (mut fields, mut rest) = (1, line);
        while !rest.is_empty() {
            if let Some(quoted) = rest.strip_prefix('"') {
                let mut end = 0;
                loop {
                    end += quoted[end..].find('"').unwrap_or_else(|| panic!("{format}: no end of {line:?}"));
                    if !quoted[end + 1..].starts_with('"') {
                        break;
                    }
                    end += 2;
                }
                rest = &quoted[end + 1..];
            } else {
                let (field, later) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                assert!(!field.contains('"'), "{format}: {line:?}");
                rest = later;
            }
            if let Some(later) = rest.strip_prefix(',') {
                fields += 1;
                rest = later;
            } else {
                assert_eq!(rest, "", "{format}: {line:?}");
            }
        }
        assert_eq!(fields, *expected.get_or_insert(fields), "{format}: {line:?}");
    }
}

fn collapsed(line: &str) {
    let (stack, count) = line.rsplit_once(' ').expect("a stack and a count");
    assert!(is_decimal(count), "{line:?}");
    assert!(stack.split(';').all(|frame| !frame.is_empty()), "{line:?}");
}

fn callgrind(line: &str) {
    const NAMES: [&str; 9] = ["ob", "fl", "fi", "fe", "fn", "cob", "cfi", "cfl", "cfn"];
    const HEADERS: [&str; 6] = ["version", "creator", "cmd", "positions", "events", "summary"];
    let named = line.split_once('=').filter(|(key, _)| NAMES.contains(key));
    let header = line.split_once(": ").filter(|(key, _)| HEADERS.contains(key));
    if let Some((_, name)) = named {
        let number = name.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        assert!(!name.is_empty() && !number.is_some_and(|(number, _)| is_decimal(number)), "{line:?}");
    } else if header.is_none() && !line.is_empty() && line != "# callgrind format" {
        let costs = ["calls=", "jcnd="].iter().find_map(|key| line.strip_prefix(key)).unwrap_or(line);
        let is_number = |word: &str| {
            let decimal = word.split('/').all(is_decimal);
            decimal || word.strip_prefix("0x").is_some_and(is_hex)
        };
        assert!(costs.split(' ').all(is_number), "{line:?}");
    }
}

fn lcov(file: &str) {
    let (mut in_record, mut functions) = (false, 0);
    for line in file.lines() {
        if line == "end_of_record" {
            assert!(std::mem::replace(&mut in_record, false));
            continue;
        }
        let (key, rest) = line.split_once(':').unwrap_or_else(|| panic!("{line:?}"));
        let numbers = |count: usize| {
            let words: Vec<_> = rest.split(',').collect();
            assert!(
                words.len() == count && words.iter().all(|one| is_decimal(one) || *one == "-"),
                "{line:?}"
            );
        };
        match key {
            "TN" => assert_eq!(rest, ""),
            "SF" => {
                assert!(!rest.is_empty() && !std::mem::replace(&mut in_record, true));
                functions = 0;
            }
            "FN" | "FNDA" => {
                let (number, name) = rest.split_once(',').expect("a number and a name");
                assert!(is_decimal(number) && !name.is_empty(), "{line:?}");
                // A second number would be the last line of the function.
                assert!(!name.split_once(',').is_some_and(|(second, _)| is_decimal(second)), "{line:?}");
                functions += u64::from(key == "FN");
            }
            "FNF" => assert_eq!(rest, functions.to_string()),
            "FNH" | "BRF" | "BRH" | "LF" | "LH" => numbers(1),
            "BRDA" => numbers(4),
            "DA" => numbers(2),
            _ => panic!("{line:?}"),
        }
    }
    assert!(!in_record);
}

/// Elements that begin also end, attributes are quoted, and references are known ones.
fn xml(file: &str) {
    let allowed = |c: char| matches!(c, '\n' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..);
    assert!(file.chars().all(allowed));
    let mut open = Vec::new();
    let mut rest = file;
    while let Some(at) = rest.find('<') {
        references(&rest[..at]);
        // No text of ours has these in it.
        let end = rest[at..].find('>').expect("the end of a tag");
        let tag = &rest[at + 1..at + end];
        rest = &rest[at + end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{tag:?}");
        } else if !tag.starts_with(['?', '!']) {
            let (inner, is_empty) = tag.strip_suffix('/').map_or((tag, false), |inner| (inner, true));
            let (name, mut attributes) = inner.split_once(' ').unwrap_or((inner, ""));
            assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic()), "{tag:?}");
            while !attributes.is_empty() {
                let (key, value) = attributes.split_once("=\"").expect("an attribute");
                let (value, later) = value.split_once('"').expect("the end of an attribute");
                assert!(key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{tag:?}");
                references(value);
                attributes = later.strip_prefix(' ').unwrap_or(later);
            }
            if !is_empty {
                open.push(name);
            }
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?}");
}

fn references(text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        let (name, later) = rest[at + 1..].split_once(';').expect("the end of a reference");
        assert!(matches!(name, "amp" | "lt" | "gt" | "quot" | "apos"), "{name:?}");
        rest = later;
    }
}

/// Two places and two counts; a backslash stands before blanks and backslashes of names.
fn fdata(line: &str) {
    let mut words = vec![String::new()];
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        let word = words.last_mut().expect("there is one");
        match c {
            '\\' => {
                let meant = characters.next();
                assert!(matches!(meant, Some('\\' | ' ')), "{line:?}");
                word.extend(meant);
            }
            ' ' => words.push(String::new()),
            c => word.push(c),
        }
    }
    let [kind, name, offset, to_kind, to_name, to_offset, missed, count] = &words[..] else {
        panic!("{line:?}: {words:?}")
    };
    assert!(kind == "1" && to_kind == "1" && !name.is_empty() && !to_name.is_empty(), "{line:?}");
    assert!(is_hex(offset) && is_hex(to_offset) && missed == "0" && is_decimal(count), "{line:?}");
}

/// As LLVM reads it: a function, or below it, deeper by blanks, counts with targets and functions that were put in.
fn llvm(line: &str) {
    let body = line.trim_start_matches(' ');
    if body.len() == line.len() {
        assert!(!line.starts_with(['#', '[']), "{line:?}");
        let mut parts = line.rsplitn(3, ':');
        assert!(parts.next().is_some_and(is_decimal) && parts.next().is_some_and(is_decimal), "{line:?}");
        assert!(parts.next().is_some_and(|name| !name.is_empty()), "{line:?}");
        return;
    }
    if let Some(checksum) = body.strip_prefix("!CFGChecksum: ") {
        assert!(is_decimal(checksum), "{line:?}");
        return;
    }
    let (place, rest) = body.split_once(": ").expect("a place");
    assert!(place.split('.').all(is_decimal), "{line:?}");
    if rest.starts_with(|c: char| c.is_ascii_digit()) {
        let mut words = rest.split(' ');
        assert!(words.next().is_some_and(is_decimal), "{line:?}");
        for target in words {
            let (name, count) = target.rsplit_once(':').expect("a target and a count");
            let numbers =
                name.split(':').skip(1).filter(|part| part.starts_with(|c: char| c.is_ascii_digit()));
            assert!(!name.is_empty() && is_decimal(count) && numbers.count() == 0, "{line:?}");
        }
    } else {
        let (name, count) = rest.rsplit_once(':').expect("a function and its sum");
        assert!(!name.is_empty() && !name.contains(' ') && is_decimal(count), "{line:?}");
    }
}

fn number(bytes: &mut &[u8]) -> u64 {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let (&byte, rest) = bytes.split_first().expect("more of a number");
        *bytes = rest;
        value |= u64::from(byte & 0x7F).wrapping_shl(shift);
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a number without an end")
}

/// The fields of a message that have a length, by number.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = number(&mut bytes);
        match key & 7 {
            0 => drop(number(&mut bytes)),
            2 => {
                let length = number(&mut bytes) as usize;
                found.push((key >> 3, bytes.get(..length).expect("as many bytes as it says")));
                bytes = &bytes[length..];
            }
            other => panic!("wire type {other}"),
        }
    }
    found
}

/// The table of names holds as many as it says, and nothing after them.
fn llvm_binary(file: &[u8]) {
    let mut rest = file;
    let (magic, version) = (number(&mut rest), number(&mut rest));
    assert_eq!((magic, version), (0x5350_524F_4634_3204, 103));
    let word = |at: usize| u64::from_le_bytes(rest[at..at + 8].try_into().expect("eight bytes"));
    for section in 0..word(0) as usize {
        let at = 8 + 32 * section;
        let (kind, offset, size) = (word(at), word(at + 16) as usize, word(at + 24) as usize);
        let mut contents = file.get(offset..offset + size).expect("a section");
        if kind == 2 {
            let count = number(&mut contents);
            assert_eq!(contents.iter().filter(|&&byte| byte == 0).count() as u64, count);
            assert!(count == 0 || contents.last() == Some(&0));
        }
    }
}

/// The names of the first section have the lengths that it says.
fn gcc(file: &[u8]) {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((word(0), word(12)), (0x6763_6461, 0xAA00_0000));
    let mut at = 24;
    for _ in 0..word(20) {
        let length = word(at) as usize;
        let (end, name) = file[at + 4..at + 4 + length].split_last().expect("at least the zero");
        assert!(*end == 0 && !name.contains(&0));
        at += 4 + length;
    }
    assert_eq!(word(at), 0xAC00_0000, "the section after the names");
}
