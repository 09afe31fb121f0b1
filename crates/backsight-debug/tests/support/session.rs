//! Sessions of a real gdb.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;

use backsight_debug::gdb::{commands, listen, serve};
use backsight_debug::replay::Replay;
use backsight_testing::{repository, skipped};

/// Is there a gdb for all processors? Says so where there is none.
pub fn has_gdb() -> bool {
    let found =
        Command::new("gdb-multiarch").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        skipped("no gdb-multiarch");
    }
    found
}

/// A folder that is gone after the test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("backsight-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs gdb with a script and a session at its standard input.
pub fn run_gdb(script: &Path, session: &str) -> Output {
    // What gdb says of errors and what the server says stand where they were said.
    let mut gdb = Command::new("sh")
        .args(["-c", "exec gdb-multiarch \"$@\" 2>&1", "sh"])
        .args([
            "-nx",
            "-q",
            "-iex",
            "set debuginfod enabled off",
            "-ex",
            "set pagination off",
            "-ex",
            "set width 0",
        ])
        .arg("-ex")
        .arg(format!("directory {}", repository().join("testdata/programs").display()))
        .arg("-x")
        .arg(script)
        .args(["-ex", "set trace-commands on"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("gdb");
    gdb.stdin.take().expect("a pipe").write_all(session.as_bytes()).expect("a session");
    gdb.wait_with_output().expect("gdb")
}

/// What gdb prints in a session on a walk.
pub fn session(name: &str, replay: &mut Replay<'_>, words: &str) -> String {
    let scratch = Scratch::new(name);
    let script = scratch.0.join("walk.gdb");
    let (sender, receiver) = channel();
    let output = std::thread::scope(|scope| {
        let words = words.to_owned();
        let gdb = scope.spawn(move || {
            let port: u16 = receiver.recv().expect("a port");
            fs::write(&script, commands(&format!("target remote :{port}"))).expect("a script");
            run_gdb(&script, &words)
        });
        let stream: TcpStream =
            listen(0, |port| sender.send(port).expect("somebody waits")).expect("a connection");
        serve(replay, stream.try_clone().expect("a stream"), stream).expect("a session");
        gdb.join().expect("gdb ends")
    });
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| line.trim_start_matches("(gdb) ")).collect::<Vec<_>>().join("\n")
}

/// What stands between the commands of a session, without what depends on the machine.
pub fn transcript(text: &str) -> String {
    let checkout = repository().canonicalize().expect("a checkout");
    let text = text
        .replace(&*repository().to_string_lossy(), "CHECKOUT")
        .replace(&*checkout.to_string_lossy(), "CHECKOUT");
    let lines = text.lines().skip_while(|line| !line.starts_with('+')).take_while(|line| *line != "+quit");
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}
