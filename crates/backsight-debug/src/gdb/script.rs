//! What gdb is told before it connects: settings, the unwinder, and how to start the server.

/// The unwinder: Python that gdb runs.
const UNWINDER: &str = include_str!("unwinder.py");

/// Settings, with what each is for.
const SETTINGS: [(&str, &str); 6] = [
    ("a search through a long trace takes its time", "set remotetimeout 600"),
    ("values that were not traced are not asked for", "set print entry-values no"),
    ("", "set print frame-arguments presence"),
    ("the value that a function returns is not in the trace", "set print finish off"),
    ("code comes out of the capture", "set sysroot target:"),
    ("", "set auto-solib-add on"),
];

/// After a jump, gdb has to read registers again.
const HOOK: [&str; 3] = ["define hookpost-monitor", "maint flush register-cache", "end"];

/// After the connection.
const CONNECTED: &str = "python backsight_connected()";

/// The commands for a gdb that connects by one more command: `target remote | COMMAND`, or `target remote :PORT`.
pub fn commands(connect: &str) -> String {
    let mut text = String::new();
    for (why, setting) in SETTINGS {
        if !why.is_empty() {
            text += &format!("# {why}\n");
        }
        text += &format!("{setting}\n");
    }
    text += &format!("python\n{UNWINDER}end\n{}\n{connect}\n{CONNECTED}\n", HOOK.join("\n"));
    text
}

/// The same as arguments of gdb, in the order in which they are obeyed.
pub fn arguments(connect: &str) -> Vec<String> {
    let mut all: Vec<String> = SETTINGS.iter().map(|(_, setting)| (*setting).to_owned()).collect();
    let digits = super::packet::to_hex(UNWINDER.as_bytes());
    all.push(format!("python exec(bytes.fromhex('{digits}').decode('utf-8'))"));
    all.push("python gdb.execute('define hookpost-monitor\\nmaint flush register-cache\\nend')".to_owned());
    all.push(connect.to_owned());
    all.push(CONNECTED.to_owned());
    all.into_iter().flat_map(|command| ["-ex".to_owned(), command]).collect()
}

/// A word as a shell reads it.
pub fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("capture/run-1"), "capture/run-1");
        assert_eq!(quoted("it's #3; rm"), r"'it'\''s #3; rm'");
        assert_eq!(quoted(""), "''");
    }
}
