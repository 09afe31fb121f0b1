//! `backsight compress`: squeezes executed instructions into a small file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use backsight::core::{Execution, ExecutionSink, Isa, RetiredBlock, TraceId};
use backsight::description::FileRef;
use backsight::image::ImageSpec;
use backsight::{Capture, Code, Event, Item, RetiredInstructions};
use backsight_run::TRUTH;
use backsight_run::retired::{RetiredReader, is_retired};
use backsight_squeeze::container::{ContainerError, Header, Writer};
use backsight_squeeze::{DataScheme, Program, Scheme};
use clap::Args;

use crate::args::{CaptureArgs, ImageArgs};
use crate::failure::{Failure, Result};
use crate::output::{Output, counted, not_written, say};

/// Compress executed instructions
///
/// INPUT is a file of retired instructions, a capture that holds one (`record --truth`), or any other capture: then what its
/// trace says was executed is compressed. What `decompress` restores is the same to the last item. With the program's
/// file, the result holds no code, and can be read only with the same file. One core does all of it.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, mut_arg("capture", |input| input.value_name("INPUT").help(INPUT)))]
pub struct Compress {
    #[command(flatten)]
    capture: CaptureArgs,

    #[command(flatten)]
    images: ImageArgs,

    /// Compress what the trace of the capture says, even where the capture holds what was really executed
    #[arg(long)]
    trace: bool,

    /// The file to write; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Scheme, and parameters that differ from the preset's: `btmbp`, `esdc:sets=64,ways=2`, …
    #[arg(long, value_name = "SCHEME[:NAME=VALUE,…]", default_value = "mix1m", value_parser = scheme)]
    scheme: Scheme,

    /// Caches for loads and stores, where INPUT has them: sets of the cache of addresses, bytes of the cache of values;
    /// with `replay=1` and --program, what follows when the program is executed again from its load values is left out (RV64)
    #[arg(long, value_name = "NAME=VALUE,…", default_value_t = DataScheme::default(), value_parser = data)]
    data: DataScheme,

    /// The program that was executed; where it was loaded, if it is relocatable
    #[arg(long, value_name = "FILE[@ADDRESS]")]
    program: Option<ImageSpec>,

    /// No summary
    #[arg(long, short)]
    quiet: bool,
}

const INPUT: &str = "File of retired instructions, or capture; `-` is standard input";

const EXAMPLES: &str = "Examples:
  backsight record -o run --truth -- ./program && backsight compress run -o run.small
  backsight compress run -o run.small --scheme btmbp --program program
  backsight compress capture --id 0x10 --image program -o capture.small";

/// A scheme by its description.
pub fn scheme(text: &str) -> std::result::Result<Scheme, String> {
    Scheme::parse(text).map_err(|bad| bad.to_string())
}

fn data(text: &str) -> std::result::Result<DataScheme, String> {
    DataScheme::parse(text).map_err(str::to_owned)
}

/// Reads the program's file.
pub fn program(spec: &ImageSpec) -> Result<Program> {
    let file = std::fs::read(&spec.file).map_err(|error| Failure::file(&spec.file, &error))?;
    let address = spec.address.map_or(0, |address| address.0);
    Program::read(&file, address).map_err(|why| Failure::new(format!("{}: {why}", spec.file.display())))
}

/// Opens what is to be read: a file, or standard input.
pub fn open(path: &Path) -> Result<Box<dyn Read + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    Ok(Box::new(File::open(path).map_err(|error| Failure::file(path, &error))?))
}

/// Items between two looks at whether all went well.
const PIECE: usize = 1 << 16;

/// Compresses what is read.
struct Packing<W> {
    writer: Writer<W>,
    written: std::result::Result<(), ContainerError>,
}

impl<W: Write> ExecutionSink for Packing<W> {
    fn item(&mut self, item: Execution) {
        if self.written.is_ok() {
            self.written = self.writer.push(&item);
        }
    }

    fn block(&mut self, block: &RetiredBlock<'_>) {
        if self.written.is_ok() {
            self.written = self.writer.push_block(block);
        }
    }
}

fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"))
}

/// Does a file hold retired instructions?
fn holds_retired(path: &Path) -> bool {
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(8).read_to_end(&mut begin));
    read.is_ok() && is_retired(&begin)
}

/// What is compressed.
enum Input {
    /// Retired instructions.
    Retired(Box<dyn Read + Send>),
    /// What a trace says was executed.
    Trace(Capture),
}

impl Compress {
    fn input(&self) -> Result<Input> {
        let path = &self.capture.capture;
        if self.trace || self.capture.names_protocol() {
            return self.open_trace();
        }
        if path == Path::new("-") || holds_retired(path) {
            return open(path).map(Input::Retired);
        }
        let description = match backsight::description::Capture::open(path) {
            Ok(description) => description,
            Err(error) if path.is_dir() || is_archive(path) => return Err(Failure::new(error)),
            // What it is expected to be is said where it is read.
            Err(_) => return open(path).map(Input::Retired),
        };
        let truth = FileRef::new(&description.folder, TRUTH).map_err(Failure::new)?;
        if truth.exists() {
            truth.open().map(Input::Retired).map_err(Failure::new)
        } else {
            self.open_trace()
        }
    }

    fn open_trace(&self) -> Result<Input> {
        let capture = self.capture.open(&self.images, self.quiet)?;
        self.capture.check_buffers(&capture)?;
        Ok(Input::Trace(capture))
    }

    /// Begins the file.
    fn writer(&self, isa: Isa) -> Result<Writer<Output>> {
        let program = self.program.as_ref().map(program).transpose()?;
        let name = self.program.as_ref().map(|spec| spec.file.display().to_string());
        let header = Header {
            scheme: self.scheme,
            data: self.data,
            isa,
            program: name.unwrap_or_default(),
            identity: program.as_ref().map_or(0, |program| program.identity),
        };
        let sections = program.map(|program| program.sections).unwrap_or_default();
        let inputs = self.capture.inputs(&self.images);
        let inputs = inputs.and(self.program.iter().map(|spec| &spec.file));
        let output = Output::open(Some(&self.output), &inputs)?;
        Writer::new(output, &header, sections).map_err(|error| not_written(&self.output, &error))
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> Failure {
        Failure::new(format!("{}: {why}", self.capture.capture.display()))
    }

    fn compress_retired(&self, input: Box<dyn Read + Send>) -> Result<Packing<Output>> {
        let mut reader = RetiredReader::new(input).map_err(|error| self.failed(&error))?;
        let mut packing = Packing { writer: self.writer(reader.isa())?, written: Ok(()) };
        while reader.read_blocks(PIECE, &mut packing).map_err(|error| self.failed(&error))?
            && packing.written.is_ok()
        {}
        Ok(packing)
    }

    fn compress_trace(&self, capture: &Capture) -> Result<Packing<Output>> {
        let mut executed =
            Executed { command: self, code: capture.code()?, threads: Vec::new(), packing: None };
        let decode = self.capture.choose(capture.execution(), capture, self.quiet);
        let summary = decode.run(|item| match executed.push(&item) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })?;
        let packing = executed.finish()?;
        // Where tracing began, or was off for a while, nothing is missing.
        let gaps = summary.statistics().gaps.total();
        if gaps > 0 && !self.quiet {
            let gaps = counted(gaps, "gap");
            say(format_args!("warning: {gaps} in the trace: what was executed there is not known"));
        }
        Ok(packing)
    }
}

/// What a trace says, on its way into the file. Sources, and harts that share one, become threads.
struct Executed<'c> {
    command: &'c Compress,
    code: &'c Code,
    threads: Vec<(Hart, RetiredInstructions<'c>)>,
    packing: Option<Result<Threads>>,
}

/// Whose instructions: the buffer, the source and the hart.
type Hart = (String, TraceId, u16);

/// Writes the items of several threads.
struct Threads {
    packing: Packing<Output>,
    current: usize,
}

impl Threads {
    fn item(&mut self, thread: usize, item: Execution) {
        if std::mem::replace(&mut self.current, thread) != thread {
            self.packing.item(Execution::Thread(thread as u32));
        }
        self.packing.item(item);
    }
}

impl Executed<'_> {
    /// Takes an event; `false`: no more can be done.
    fn push(&mut self, item: &Item<'_, Event>) -> bool {
        let thread = self.thread(item);
        if self.packing.is_none()
            && let Event::Range(range) = item.value
        {
            let begin = |writer| Threads { packing: Packing { writer, written: Ok(()) }, current: 0 };
            self.packing = Some(self.command.writer(range.isa).map(begin));
        }
        let packing = &mut self.packing;
        self.threads[thread].1.push(item, &mut |item| {
            if let Some(Ok(threads)) = packing {
                threads.item(thread, item);
            }
        });
        match &self.packing {
            None => true,
            Some(Ok(threads)) => threads.packing.written.is_ok(),
            Some(Err(_)) => false,
        }
    }

    fn thread(&mut self, item: &Item<'_, Event>) -> usize {
        let (buffer, id, hart) = (item.source.buffer(), item.source.id(), item.sub_source);
        let is_it = |(known, _): &(Hart, _)| known.0 == buffer && (known.1, known.2) == (id, hart);
        self.threads.iter().position(is_it).unwrap_or_else(|| {
            let new = RetiredInstructions::new(self.code, item.source);
            self.threads.push(((buffer.to_owned(), id, hart), new));
            self.threads.len() - 1
        })
    }

    /// Nothing more comes.
    fn finish(self) -> Result<Packing<Output>> {
        let nothing =
            "the trace does not say of any instruction that it was executed; `backsight doctor` says why";
        let mut threads = self.packing.unwrap_or_else(|| Err(self.command.failed(&nothing)))?;
        for (thread, (_, mut instructions)) in self.threads.into_iter().enumerate() {
            instructions.finish(&mut |item| threads.item(thread, item));
        }
        Ok(threads.packing)
    }
}

/// Runs the command.
pub fn run(command: &Compress) -> Result {
    let packing = match command.input()? {
        Input::Retired(input) => command.compress_retired(input)?,
        Input::Trace(capture) => command.compress_trace(&capture)?,
    };
    packing.written.map_err(|error| not_written(&command.output, &error))?;
    let (output, instructions, bytes) =
        packing.writer.finish().map_err(|error| not_written(&command.output, &error))?;
    output.finish()?;
    if !command.quiet {
        let bits = if instructions > 0 { bytes as f64 * 8.0 / instructions as f64 } else { 0.0 };
        say(format_args!("{instructions} instructions in {bytes} bytes: {bits:.5} bits an instruction"));
    }
    Ok(())
}
