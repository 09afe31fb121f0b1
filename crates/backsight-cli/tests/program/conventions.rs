//! What users of other programs expect of this one: versions, completions, manual pages, colours.

use crate::support::{Scratch, command, first, line, run_of, words};

/// The commands, as the help lists them.
fn commands() -> Vec<String> {
    let help = line("--help").done().out;
    let (_, list) = help.split_once("Commands:\n").expect("a list of commands");
    let names = list.lines().take_while(|line| !line.is_empty());
    let names = names.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().map(str::to_owned));
    names.filter(|name| !name.is_empty() && name != "help").collect()
}

#[test]
fn the_version_is_that_of_the_package_with_the_commit_that_was_built() {
    let version = line("--version").done().out;
    assert_eq!(line("-V").done().out, version);
    let rest = version.strip_prefix(concat!("backsight ", env!("CARGO_PKG_VERSION"))).expect("the version");
    let commit = rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(")\n"));
    match commit.and_then(|commit| commit.split_once(' ')) {
        Some((hash, date)) => {
            assert!(hash.len() >= 7 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{version}");
            assert_eq!(date.split('-').count(), 3, "{version}");
        }
        // The sources are no checkout.
        None => assert_eq!(rest, "\n"),
    }
}

#[test]
fn every_shell_completes_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = line(&format!("completions {shell}")).done().out;
        for name in commands() {
            assert!(script.contains(&name), "{shell}: {name}");
        }
        assert!(script.contains("framing"), "{shell}");
    }
    line("completions tcsh").wrong_use("bash");
}

#[test]
fn every_command_has_a_manual_page_that_says_what_its_help_says() {
    let scratch = Scratch::new();
    let folder = scratch.path("man1");
    line(&format!("man {}", folder.display())).done();
    let page = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a page");
    assert_eq!(page("backsight.1"), line("man").done().out);
    assert!(page("backsight.1").contains("BACKSIGHT_QEMU_PLUGIN"));
    for name in commands() {
        let page = page(&format!("backsight-{name}.1"));
        let help = line(&format!("{name} --help")).done().out;
        let first = help.lines().next().expect("what it is for");
        assert!(page.replace('\\', "").contains(first), "{name}: {first}");
        assert!(!page.contains(".SH EXTRA"), "{name}");
    }
    line("man /proc/nothing/man1").could_not("/proc/nothing/man1");
}

#[test]
fn variables_of_the_environment_are_in_the_help() {
    let help = line("--help").done().out;
    for name in ["BACKSIGHT_QEMU_PLUGIN", "NO_COLOR"] {
        assert!(help.contains(name), "{help}");
    }
    assert!(line("record --help").done().out.contains("BACKSIGHT_QEMU_PLUGIN"));
}

fn without_colors(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[test]
fn colours_are_used_when_asked_for_and_change_nothing_else() {
    for arguments in ["flow FIRST --disasm", "flow FIRST --calls", "packets FIRST", "info FIRST"] {
        let plain = line(arguments).done().out;
        assert!(!plain.contains('\x1b'), "{arguments}: a pipe is no terminal");
        assert_eq!(line(&format!("{arguments} --color never")).done().out, plain);
        let coloured = line(&format!("{arguments} --color always")).done().out;
        assert!(coloured.contains('\x1b'), "{arguments}");
        assert_eq!(without_colors(&coloured), plain, "{arguments}");
    }
    // Programs read these.
    for arguments in ["flow FIRST --format json", "packets FIRST --format opencsd", "info FIRST --json"] {
        let coloured = line(&format!("{arguments} --color always")).done().out;
        assert!(!coloured.contains('\x1b'), "{arguments}");
    }
    assert!(line("info /nonexistent --color always").err.contains("\x1b[31mbacksight:"));
    assert!(!line("info --color never --no-such-option").err.contains('\x1b'));
    assert!(line("info --color always --no-such-option").err.contains('\x1b'));
}

#[test]
fn asking_for_colours_comes_before_no_color() {
    let arguments = words(&format!("info {} --color always", first().display()));
    let run = run_of(command(&arguments).env("NO_COLOR", "1").output().expect("runs")).done();
    assert!(run.out.contains('\x1b'), "{}", run.out);
}
