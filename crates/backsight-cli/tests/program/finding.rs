//! `index` and `find`: moments, and the file that makes them quick to reach.

use backsight_testing::{corpus, repository, skipped};
use serde_json::Value;

use crate::support::{Scratch, first, line};

fn riscv() -> String {
    repository().join("testdata/captures/calls-riscv64").display().to_string()
}

fn lines(arguments: &str) -> Vec<String> {
    line(&format!("{arguments} --quiet")).done().out.lines().map(str::to_owned).collect()
}

#[test]
fn calls_of_a_function_are_those_that_the_tree_of_calls_has() {
    let capture = riscv();
    let tree = lines(&format!("flow {capture} --calls=tree --format json"));
    for function in ["ackermann", "program"] {
        let nodes = tree.iter().map(|line| serde_json::from_str::<Value>(line).expect(line));
        let of_function = nodes.filter(|node| node["function"] == function);
        let calls: u64 = of_function.map(|node| node["calls"].as_u64().expect("a number")).sum();
        let found = lines(&format!("find {capture} --function {function}"));
        assert!(calls > 0 && found.len() as u64 == calls, "{function}: {calls}, {}", found.len());
        let count = lines(&format!("find {capture} --function {function} --count")).concat();
        assert!(count.starts_with(&format!("{calls} ")), "{count}");
        let last = lines(&format!("find {capture} --function {function} --last"));
        assert_eq!(last.first(), found.last(), "{function}");
        let nth = found.len().div_ceil(2);
        let middle = lines(&format!("find {capture} --function {function} --nth {nth}"));
        assert_eq!(middle, found[nth - 1..nth], "{function}");
        // The moment is that of its first instruction.
        let words: Vec<_> = middle[0].split(' ').collect();
        assert_eq!(words.last(), Some(&function));
        let first = lines(&format!("flow {capture} --from {} --format pcs --limit 1", words[0]));
        assert_eq!(Some(first[0].as_str()), words.get(words.len() - 2).copied(), "{words:?}");
    }
}

#[test]
fn an_address_is_found_as_often_as_it_is_executed() {
    for capture in ["FIRST", &riscv()] {
        let all = lines(&format!("flow {capture} --format pcs"));
        for at in [0, 17, all.len() / 2, all.len() - 1] {
            let address = &all[at];
            let found = lines(&format!("find {capture} --address {address}"));
            let numbers = all.iter().enumerate().filter(|(_, pc)| *pc == address).map(|(number, _)| number);
            let expected: Vec<_> = numbers.map(|number| format!("#{number}")).collect();
            let moments: Vec<_> = found.iter().filter_map(|line| line.split(' ').next()).collect();
            assert_eq!(moments, expected, "{capture}, {address}");
            let json = lines(&format!("find {capture} --address {address} --json --limit 1"));
            let json: Value = serde_json::from_str(&json[0]).expect("JSON");
            assert_eq!(json["moment"], expected[0].as_str(), "{json}");
        }
    }
}

#[test]
fn exceptions_are_found_where_they_are() {
    let found = lines("find FIRST --exception");
    let run = line("flow FIRST").done();
    assert!(found.len() == 13 && run.err.contains("13 exceptions"), "{found:?}, {}", run.err);
    assert!(found.iter().all(|line| line.contains(" exception ")), "{found:?}");
}

#[test]
fn what_is_not_there_is_a_failure_and_no_question_is_wrong_use() {
    let capture = riscv();
    line(&format!("find {capture} --address 3 --quiet")).could_not("nothing of that is in the trace");
    line(&format!("find {capture} --function nothing --quiet")).could_not("no function of that name");
    line(&format!("find {capture} --function ackerman --quiet")).could_not("; near to it: ackermann");
    line(&format!("find {capture} --line nothing.c:1 --quiet"))
        .could_not("no code of the image is from that line");
    line(&format!("find {capture} --line nothing")).wrong_use("FILE:LINE is expected");
    line(&format!("find {capture}")).wrong_use("--function");
    line(&format!("find {capture} --gap --exception")).wrong_use("cannot be used with");
    line("index -").wrong_use("standard input");
}

#[test]
fn an_index_is_used_while_it_belongs_to_the_capture_and_refused_with_a_word_when_not() {
    let folder = Scratch::new();
    let capture = folder.copy_of(&first(), "run");
    let name = capture.display().to_string();
    let window = format!("flow {name} --last 9 --format pcs");
    let expected = lines(&window);
    assert_eq!(expected.len(), 9);
    let made = line(&format!("index {name}")).done();
    assert!(made.err.contains("run.index: "), "{}", made.err);
    let index = folder.path("run.index");
    let whole = std::fs::read(&index).expect("the index");
    let said = |what: &str| {
        let run = line(&window).done();
        assert_eq!(run.out.lines().collect::<Vec<_>>(), expected, "{what}");
        run.err
    };
    // By the index, instructions are counted from the beginning.
    assert!(said("a good one").contains("9 instructions from #"));
    let mut damaged = whole.clone();
    *damaged.last_mut().expect("bytes") ^= 1;
    std::fs::write(&index, damaged).expect("written");
    assert!(said("a damaged one").contains("run.index: a damaged index: it is not used"));
    std::fs::write(&index, b"something else").expect("written");
    assert!(said("a foreign one").contains("run.index: no index, or one of another version"));
    line(&format!("index {name} --quiet")).done();
    assert!(!said("one that was made again").contains("warning"));
    // That of a capture whose trace is shorter.
    let other = folder.copy_of(&first(), "other");
    let trace = std::fs::read(other.join("trace.bin")).expect("trace");
    std::fs::write(other.join("trace.bin"), &trace[..trace.len() - 16]).expect("written");
    line(&format!("index {} --quiet", other.display())).done();
    std::fs::copy(folder.path("other.index"), &index).expect("copied");
    assert!(said("a stale one").contains("run.index: an index of another capture"));
}

#[test]
fn with_an_index_of_a_long_capture_everything_is_as_without() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let folder = Scratch::new();
    let name = folder.copy_of(&corpus.join("opencsd/cc1-head/capture"), "long").display().to_string();
    let questions: Vec<_> = [
        "flow LONG --from #1000000 --to #1002000",
        "flow LONG --around #1500000 --format json",
        "flow LONG --from @0x20000 --format pcs --limit 1000",
        "find LONG --function 0x6d8ce0 --count",
        "find LONG --exception --last",
        "find LONG --address 0x6d8ce0 --last --json",
    ]
    .map(|question| question.replace("LONG", &name))
    .into();
    let answers =
        || questions.iter().map(|question| line(&format!("{question} --quiet"))).collect::<Vec<_>>();
    let without = answers();
    let made = line(&format!("index {name} --threads 1")).done();
    assert!(made.err.contains(" points"), "{}", made.err);
    for (question, (one, other)) in questions.iter().zip(without.into_iter().zip(answers())) {
        assert_eq!((one.status, one.out), (other.status, other.out), "{question}");
    }
    let size = std::fs::metadata(folder.path("long.index")).expect("the index").len();
    assert!(size < (1 << 18) / 100, "{size}");
    let last = line(&format!("flow {name} --last 100 --format pcs")).done();
    assert_eq!(last.out.lines().count(), 100);
    let decoded =
        last.err.lines().find_map(|line| line.split("; ").nth(1)?.split(' ').next()?.parse::<u64>().ok());
    assert!(decoded.is_some_and(|bytes| bytes < 60_000), "{}", last.err);
}
