//! The arguments that all commands share.

use std::path::{Path, PathBuf};

use backsight::detect::Reading;
use backsight::frame::Framing;
use backsight::image::ImageSpec;
use backsight::{Buffer, Capture, Decode, OpenOptions, decode, protocol};
use backsight_core::{Budget, Door};
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::failure::{Failure, Result};
use crate::output::{Inputs, say};
use crate::progress::Progress;
pub use backsight_run::settings::{parse_number, parse_range};

/// What to read, and how.
#[derive(Args, Clone, Debug)]
pub struct CaptureArgs {
    /// Snapshot folder, trace package (folder or ZIP), perf.data, Tarmac log, or a bare file of trace; `-` is standard input
    pub capture: PathBuf,

    /// Protocol of a bare file or of standard input
    #[arg(long, value_name = "P", help_heading = "Capture", value_parser = protocols())]
    protocol: Option<String>,

    /// How the bytes are framed; overrides what the metadata of a packaged capture says. A bare file is raw (E-Trace:
    /// reference) if nothing is said
    #[arg(long, value_name = "F", help_heading = "Capture", value_parser = framings())]
    framing: Option<String>,

    /// Configuration: a register or option, or a file of them, one a line; overrides what the metadata of a packaged
    /// capture says. May be given several times; `ID:KEY=VALUE` is for the source with that trace ID only, the rest is
    /// for all that know it
    #[arg(long, value_name = "FILE|KEY=VALUE", help_heading = "Capture")]
    config: Vec<String>,

    /// The buffer wrapped and its write pointer is lost: find the likeliest start of the trace
    #[arg(long, help_heading = "Capture")]
    wrapped: bool,

    /// Only this buffer; may be given several times
    #[arg(long, value_name = "NAME", help_heading = "Capture")]
    pub buffer: Vec<String>,

    /// Only the source with this trace ID, decimal or 0x hexadecimal; may be given several times
    #[arg(long, value_name = "ID", help_heading = "Capture", value_parser = parse_number)]
    pub id: Vec<u64>,

    /// Files of a folder may be links that lead out of it, and devices: only for captures that you trust
    #[arg(long, help_heading = "Capture")]
    follow_links: bool,

    /// Most bytes that are unpacked and kept of what a file says of itself: out of a ZIP archive, records of perf.data,
    /// names and lines of programs, a wrapped buffer; without it, what its size allows for
    #[arg(long, value_name = "BYTES", help_heading = "Capture", value_parser = parse_number)]
    budget: Option<u64>,
}

/// A second capture, and how it is read where that is not as the first one.
#[derive(Args, Clone, Debug)]
pub struct OtherArgs {
    /// The second capture
    pub other: PathBuf,

    /// Protocol of the second capture, a bare file, if it is another one
    #[arg(long, value_name = "P", help_heading = "Second capture", value_parser = protocols())]
    other_protocol: Option<String>,

    /// Framing of the second capture, if it is another one
    #[arg(long, value_name = "F", help_heading = "Second capture", value_parser = framings())]
    other_framing: Option<String>,

    /// Configuration of the second capture, instead of that of the first; may be given several times
    #[arg(long, value_name = "FILE|KEY=VALUE", help_heading = "Second capture")]
    other_config: Vec<String>,

    /// Trace ID in the second capture of the source that is compared with that of --id; may be given as often
    #[arg(long, value_name = "ID", help_heading = "Second capture", value_parser = parse_number)]
    pub other_id: Vec<u64>,
}

/// Which code to use.
#[derive(Args, Clone, Debug, Default)]
pub struct ImageArgs {
    /// Code besides what the capture brings along: an ELF file, or a raw dump with its address. A relocatable ELF
    /// file is loaded at ADDRESS. May be given several times; of overlapping ones the last wins
    #[arg(long, value_name = "FILE[@ADDRESS]", help_heading = "Code")]
    pub image: Vec<ImageSpec>,

    #[command(flatten)]
    pub files: FileArgs,
}

/// Where names in a capture may lead to outside of it.
#[derive(Args, Clone, Debug, Default)]
pub struct FileArgs {
    /// Folder with files of the traced system: by their paths there, by their names alone, or by build ID as in perf's
    /// cache. May be given several times
    #[arg(long, value_name = "FOLDER", help_heading = "Code")]
    pub symfs: Vec<PathBuf>,

    /// Use this machine's own files that the capture names, if they are ELF files with the recorded build ID: for
    /// captures that were recorded here
    #[arg(long, help_heading = "Code")]
    pub host_files: bool,
}

/// What every command that writes results takes.
#[derive(Args, Clone, Debug)]
pub struct OutputArgs {
    /// Write to this file; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// No summary, no progress, no warnings
    #[arg(long, short)]
    pub quiet: bool,

    /// Damage in the trace is a failure: exit status 1
    #[arg(long)]
    pub strict: bool,
}

/// Protocols that a bare file can be said to hold.
fn protocols() -> PossibleValuesParser {
    protocol::decoded().map(|names| names.name).collect::<Vec<_>>().into()
}

/// Framings that bytes can be said to have.
fn framings() -> PossibleValuesParser {
    backsight::framings().collect::<Vec<_>>().into()
}

impl CaptureArgs {
    /// Opens the capture. Doubts about it go to standard error unless `quiet`.
    pub fn open(&self, images: &ImageArgs, quiet: bool) -> Result<Capture> {
        self.check(images)?;
        let capture = self.open_as(images)?;
        Self::say_warnings(&capture, quiet);
        Ok(capture)
    }

    /// Doubts about a capture go to standard error unless `quiet`.
    pub fn say_warnings(capture: &Capture, quiet: bool) {
        if !quiet {
            capture.warnings().iter().for_each(|warning| say(format_args!("warning: {warning}")));
        }
    }

    /// The same, where the user says what was found in a bare file.
    pub fn detected(&self, reading: &Reading) -> Self {
        let mut arguments = self.clone();
        arguments.protocol = Some(reading.protocol.to_owned());
        let framing = (reading.framing != Framing::Raw.name()).then(|| reading.framing.to_owned());
        arguments.framing = arguments.framing.or(framing);
        let found = reading.config.iter().map(|setting| (*setting).to_owned());
        arguments.config = found.chain(arguments.config).collect();
        arguments
    }

    /// The same for another capture.
    pub fn at(&self, capture: &Path) -> Self {
        Self { capture: capture.to_owned(), ..self.clone() }
    }

    /// The same for another capture, described in another way where that is said, with the sources that have other IDs.
    pub fn beside(&self, other: &OtherArgs) -> Self {
        let OtherArgs { other, other_protocol, other_framing, other_config, other_id } = other;
        let mut arguments = self.at(other);
        if other_protocol.is_some() {
            // What describes a file of another protocol does not describe this one.
            (arguments.framing, arguments.config) = Default::default();
        }
        arguments.protocol = other_protocol.clone().or(arguments.protocol);
        arguments.framing = other_framing.clone().or(arguments.framing);
        if !other_config.is_empty() {
            arguments.config.clone_from(other_config);
        }
        if !other_id.is_empty() {
            arguments.id.clone_from(other_id);
        }
        arguments
    }

    /// Refuses what makes no sense.
    pub fn check(&self, images: &ImageArgs) -> Result {
        if let Some(id) = self.id.iter().find(|&&id| id > 0x7F) {
            return Err(Failure::usage(format!("--id {id:#x}: trace IDs are 0 to 0x7f")));
        }
        if let Some(folder) = images.files.symfs.iter().find(|folder| !folder.is_dir()) {
            return Err(Failure::new(format!("--symfs {}: there is no such folder", folder.display())));
        }
        Ok(())
    }

    /// Opens the capture, and says nothing.
    pub fn open_as(&self, images: &ImageArgs) -> backsight::Result<Capture> {
        let mut options = OpenOptions::new().wrapped(self.wrapped).follow_links(self.follow_links);
        options = self.protocol.iter().fold(options, |options, name| options.protocol(name));
        options = self.framing.iter().fold(options, |options, name| options.framing(name));
        options = self.config.iter().fold(options, |options, setting| options.config(setting));
        options = self.id.first().iter().fold(options, |options, id| options.label(**id as u8));
        options = self.budget.iter().fold(options, |options, bytes| options.budget(*bytes));
        options = images.image.iter().fold(options, |options, image| options.image_file(image.clone()));
        options = images.files.symfs.iter().fold(options, |options, folder| options.symfs(folder));
        options = options.host_files(images.files.host_files);
        options.open(&self.capture)
    }

    /// Everything that is read, as far as the command line names it.
    pub fn inputs(&self, images: &ImageArgs) -> Inputs {
        let images = images.image.iter().map(|image| &image.file);
        let config = self.config.iter().filter(|setting| !setting.contains('='));
        Inputs::none().and([&self.capture]).and(images).and(config)
    }

    /// Did the user say which protocol it is?
    pub fn names_protocol(&self) -> bool {
        self.protocol.is_some()
    }

    /// What the user allows for an input of this size at a door, or what the door allows.
    pub fn budget(&self, door: Door, input: u64) -> Budget {
        Budget::of(door, self.budget, input)
    }

    /// What the user allows, where that was said.
    pub const fn most_bytes(&self) -> Option<u64> {
        self.budget
    }

    /// Is standard input read, which can be done once?
    pub fn is_standard_input(&self) -> bool {
        self.capture == Path::new("-")
    }

    /// Refuses names of buffers that the capture does not have.
    pub fn check_buffers(&self, capture: &Capture) -> Result {
        match self.buffer.iter().find(|name| capture.buffer(name).is_none()) {
            Some(name) => {
                let known: Vec<_> = capture.buffers().iter().map(Buffer::name).collect();
                Err(Failure::usage(format!("--buffer {name}: the capture has {}", known.join(", "))))
            }
            None => Ok(()),
        }
    }

    /// The IDs that the user wants and no source of the capture is said to have. What the frames of a bare file hold, nobody says.
    #[cfg(feature = "tables")]
    pub fn unknown_ids(&self, capture: &Capture) -> Vec<u64> {
        if self.protocol.is_some() {
            return Vec::new();
        }
        let has = |id: u64| {
            let mut sources = capture.buffers().iter().flat_map(Buffer::sources);
            sources.any(|source| u64::from(source.id().get()) == id)
        };
        self.id.iter().copied().filter(|&id| !has(id)).collect()
    }

    /// Refuses an ID that none of several captures has.
    #[cfg(feature = "tables")]
    pub fn check_known(unknown: &[u64]) -> Result {
        match unknown.first() {
            Some(id) => {
                Err(Failure::usage(format!("--id {id:#x}: no source has it (`backsight info` lists them)")))
            }
            None => Ok(()),
        }
    }

    /// Does the user want several buffers?
    pub fn chooses_several(&self, capture: &Capture) -> bool {
        self.chosen(capture).nth(1).is_some()
    }

    /// The buffers that the user wants.
    pub fn chosen<'c>(&self, capture: &'c Capture) -> impl Iterator<Item = &'c Buffer> {
        capture.buffers().iter().filter(|buffer| {
            let named = self.buffer.is_empty() || self.buffer.iter().any(|name| name == buffer.name());
            let mut ids = buffer.sources().map(|source| u64::from(source.id().get()));
            named && (!buffer.is_raw() || self.id.is_empty() || ids.any(|id| self.id.contains(&id)))
        })
    }

    /// Decodes what the user wants, with progress on a terminal.
    pub fn choose<'c, K: decode::Kind>(
        &self,
        mut decode: Decode<'c, K>,
        capture: &Capture,
        quiet: bool,
    ) -> Decode<'c, K> {
        decode = self.buffer.iter().fold(decode, |decode, name| decode.buffer(name));
        decode = self.id.iter().fold(decode, |decode, id| decode.id(*id));
        let progress = Progress::bytes(self.chosen(capture).map(Buffer::size).sum(), quiet);
        decode.progress(move |bytes| progress.add(bytes))
    }
}
