//! Running the program, and small things to run it on.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use backsight_arm::etm4::synthetic::WorstCase;
use backsight_arm::frame::{Formatter, FormatterConfig, Framing};
use backsight_core::TraceId;

/// What a run of the program did.
#[derive(Debug)]
pub struct Run {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    /// It did what it was asked.
    #[track_caller]
    pub fn done(self) -> Self {
        assert_eq!(self.status, 0, "{self:?}");
        self
    }

    /// It could not, and said why in one line that names `what`.
    #[track_caller]
    pub fn could_not(self, what: &str) -> Self {
        assert_eq!(self.status, 1, "{self:?}");
        self.says_why(what)
    }

    /// It was used wrongly, and said so with `what` in it.
    #[track_caller]
    pub fn wrong_use(self, what: &str) -> Self {
        assert_eq!(self.status, 2, "{self:?}");
        assert!(self.err.contains(what), "expected `{what}` in {}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    #[track_caller]
    fn says_why(self, what: &str) -> Self {
        let complaints: Vec<_> = self.err.lines().filter(|line| line.starts_with("backsight: ")).collect();
        assert_eq!(complaints.len(), 1, "one line of complaint is expected: {}", self.err);
        assert!(complaints[0].contains(what), "expected `{what}` in {}", complaints[0]);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }
}

/// The program, ready to run.
pub fn command<A: AsRef<OsStr>>(arguments: &[A]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_backsight"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the program with nothing on standard input.
pub fn backsight<A: AsRef<OsStr>>(arguments: &[A]) -> Run {
    finish(command(arguments))
}

/// Runs the program with these pieces on standard input, one write each.
pub fn backsight_reading<A: AsRef<OsStr>>(arguments: &[A], pieces: &[&[u8]]) -> Run {
    let mut child = command(arguments).stdin(Stdio::piped()).spawn().expect("the program starts");
    let mut input = child.stdin.take().expect("its standard input");
    let output = std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            for piece in pieces {
                // The program may end before it has read everything.
                if input.write_all(piece).and_then(|()| input.flush()).is_err() {
                    break;
                }
            }
        });
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("writing");
        output
    });
    run_of(output)
}

fn finish(mut command: Command) -> Run {
    run_of(command.output().expect("the program runs"))
}

/// What a finished child did.
pub fn run_of(output: std::process::Output) -> Run {
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Run {
        status: output.status.code().expect("ended by itself, not by a signal"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// The arguments of a command line without quotes.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Runs a command line; `FIRST` in it is the bundled capture.
pub fn line(line: &str) -> Run {
    backsight(&words(&line.replace("FIRST", &first().display().to_string())))
}

/// The capture that comes with the project.
pub fn first() -> PathBuf {
    backsight_testing::repository().join("testdata/captures/first")
}

/// The trace of the one source of [`first`], without frames.
pub fn first_stream() -> Vec<u8> {
    let bytes = fs::read(first().join("trace.bin")).expect("trace");
    let mut deframer = backsight_arm::frame::Deframer::new(Framing::Coresight);
    let mut stream = Vec::new();
    let mut sink = |chunk: backsight_arm::frame::Chunk<'_>| {
        if let backsight_arm::frame::Chunk::Data { id, bytes, .. } = chunk
            && id == TraceId::new(0x10)
        {
            stream.extend_from_slice(bytes);
        }
    };
    deframer.feed(&bytes, &mut sink);
    deframer.finish(&mut sink);
    stream
}

/// The configuration of [`first`] on a command line.
pub const FIRST_CONFIG: &str = "--protocol etm4 --config TRCCONFIGR=0x1841 --config TRCIDR0=0x28000ea1 \
    --config TRCIDR1=0x4100f403 --config TRCIDR2=0x488 --config TRCIDR8=0";

/// Streams of several sources in frames, taken in turns of a few bytes.
pub fn framed(framing: Framing, streams: &[(u8, &[u8])]) -> Vec<u8> {
    let mut formatter = Formatter::new(FormatterConfig::new(framing));
    let mut out = Vec::new();
    let mut places = vec![0; streams.len()];
    while streams.iter().zip(&places).any(|((_, stream), &place)| place < stream.len()) {
        for ((id, stream), place) in streams.iter().zip(&mut places) {
            let end = stream.len().min(*place + 7 + usize::from(*id % 5));
            formatter
                .push(TraceId::new(*id), &stream[*place..end], &mut |bytes| out.extend_from_slice(bytes))
                .expect("an ID of a source");
            *place = end;
        }
    }
    formatter.finish(&mut |bytes| out.extend_from_slice(bytes));
    out
}

/// A stream with many packets.
pub fn synthetic(case: WorstCase, length: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    case.write(length, 1, &mut |packet| bytes.extend_from_slice(packet));
    bytes
}

/// A folder of this test's own, gone when it ends.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("backsight-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("temporary folder");
        Self(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file and gives its path.
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("folder");
        fs::write(&path, contents).expect("file");
        path
    }

    /// A copy of a capture folder, to be changed.
    pub fn copy_of(&self, capture: &Path, name: &str) -> PathBuf {
        let target = self.path(name);
        fs::create_dir_all(&target).expect("folder");
        for entry in fs::read_dir(capture).expect("capture") {
            let entry = entry.expect("entry");
            let kind = entry.file_type().expect("type");
            if kind.is_dir() {
                self.copy_of(&entry.path(), target.join(entry.file_name()).to_str().expect("a name"));
            } else if kind.is_file() {
                // Not `copy`: the original may be read-only.
                let contents = fs::read(entry.path()).expect("read");
                fs::write(target.join(entry.file_name()), contents).expect("write");
            }
        }
        target
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Changes one text of a file into another.
#[track_caller]
pub fn edit(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).expect("text file");
    assert!(text.contains(from), "no `{from}` in {}", file.display());
    fs::write(file, text.replacen(from, to, 1)).expect("write");
}
