//! Tables as files and streams.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backsight_table::export::{self, Step};
use backsight_table::{Part, Query, Table};

use super::{Compression, Export};
use crate::args::CaptureArgs;
use crate::failure::{Failure, Result};
use crate::index_file;
use crate::output::{Inputs, Output, counted, say};
use crate::progress::Progress;

/// Runs the command.
///
/// # Errors
/// If something asked for makes no sense, files cannot be written, or captures could not be read.
pub fn run(command: &Export) -> Result {
    let queries = queries(command)?;
    if command.describe {
        let mut output = Output::for_people(None, &Inputs::none())?;
        queries.iter().try_for_each(|query| describe(query.table(), &mut output))?;
        return output.finish();
    }
    write(command, queries)
}

fn tables(names: &[String], has_window: bool) -> Result<Vec<Table>> {
    if names.iter().any(|name| name == "all") {
        let all = Table::ALL.iter().copied();
        return Ok(all.filter(|table| !has_window || *table != Table::Sources).collect());
    }
    Ok(names.iter().map(|name| name.parse()).collect::<backsight_table::Result<_>>()?)
}

/// What is wanted, if it is not everything.
fn part(command: &Export) -> Option<Part> {
    let (window, quiet, filter) = (command.window.clone(), command.quiet, command.chosen.options());
    (command.window.is_given() || filter.is_selective()).then(|| Part {
        words: [window.words(), command.chosen.words()].join(" "),
        filter,
        window_of: Arc::new(move |moments, decode, source| window.of(moments, decode, source)),
        index_of: Arc::new(move |path, capture| index_file::find(path, capture, quiet)),
    })
}

fn queries(command: &Export) -> Result<Vec<Query>> {
    let mut queries = Vec::new();
    let part = part(command);
    for table in tables(&command.table, part.is_some())? {
        let mut query = Query::new(table);
        if !command.columns.is_empty() {
            query = query.columns(&command.columns)?;
        }
        if let Some(filter) = &command.filter {
            query = query.filter(filter)?;
        }
        query = command.limit.into_iter().fold(query, Query::limit);
        if let Some(time) = command.until {
            query = query.until(time)?;
        }
        if let Some(part) = &part {
            query = query.part(part.clone())?;
        }
        query = command.capture.buffer.iter().fold(query, |query, name| query.buffer(name));
        query = command.capture.id.iter().fold(query, |query, id| query.source(*id as u8));
        queries.push(query);
    }
    Ok(queries)
}

fn describe(table: Table, output: &mut Output) -> Result {
    output.put(|out| {
        writeln!(out, "{table}: {}", table.about())?;
        table.columns().iter().try_for_each(|column| {
            let null = if column.nullable { " or null" } else { "" };
            let kind = format!("{}{null}", column.kind.name());
            writeln!(out, "  {:<22}{kind:<28}{}", column.name, column.meaning)
        })
    })
}

impl From<backsight_table::Error> for Failure {
    fn from(error: backsight_table::Error) -> Self {
        match error {
            backsight_table::Error::Misuse(_) | backsight_table::Error::Filter { .. } => Self::usage(error),
            backsight_table::Error::Capture(error) => error.into(),
            error => Self::new(error),
        }
    }
}

fn write(command: &Export, queries: Vec<Query>) -> Result {
    let captures: Vec<PathBuf> =
        std::iter::once(&command.capture.capture).chain(&command.others).cloned().collect();
    if captures.iter().any(|capture| capture == Path::new("-")) {
        return Err(Failure::usage(
            "export reads captures more than once: standard input cannot be exported",
        ));
    }
    command.capture.check(&command.images)?;
    // Else each capture would be one that cannot be read.
    if let Some(image) = command.images.image.iter().find(|image| !image.file.exists()) {
        return Err(Failure::new(format!("--image {}: there is no such file", image.file.display())));
    }
    let unknown = RefCell::new(command.capture.id.clone());
    let chosen = command.chosen.options();
    let open = |path: &Path| {
        let capture = command.capture.at(path).open_as(&command.images)?;
        chosen.check(&capture)?;
        let here = command.capture.unknown_ids(&capture);
        unknown.borrow_mut().retain(|id| here.contains(id));
        Ok(capture)
    };
    let exported = match (&command.parquet, &command.arrow) {
        (Some(folder), _) => {
            let progress = Progress::bytes(None, command.quiet);
            let step = move |step: Step<'_>| {
                if let Step::Bytes(bytes) = step {
                    progress.add(bytes);
                }
            };
            let export = export::Export::new(folder, queries)?;
            let export = export.compress(command.compression != Some(Compression::None));
            let export =
                command.row_group.iter().fold(export, |export, rows| export.row_group(*rows as usize));
            export.run(&captures, &open, Arc::new(step))?
        }
        (None, file) => {
            let [query] = queries.as_slice() else {
                return Err(Failure::usage("--arrow: a stream holds one table: name it with --table"));
            };
            let inputs = command.capture.inputs(&command.images).and(&command.others);
            let mut output = Output::open(file.as_deref(), &inputs)?;
            if output.is_terminal() {
                return Err(Failure::usage("--arrow -: a stream of Arrow is not for terminals"));
            }
            let mut exported = None;
            output.put(|out| {
                exported = Some(export::write_stream(query, &captures, &open, out)?);
                Ok(())
            })?;
            let exported = exported.unwrap_or_default();
            output.finish()?;
            exported
        }
    };
    if !command.quiet {
        let rows = counted(exported.rows, "row");
        match &command.parquet {
            Some(folder) => say(format_args!(
                "{rows} in {} of {} bytes below {}: {} written, {} there already",
                counted(exported.written + exported.kept, "part"),
                exported.bytes,
                folder.display(),
                exported.written,
                exported.kept,
            )),
            None => say(rows),
        }
        for (path, why) in &exported.failed {
            let name = path.display().to_string();
            let why = why.strip_prefix(&format!("{name}: ")).unwrap_or(why);
            say(format_args!("{name}: {why}"));
        }
    }
    match exported.failed.len() {
        0 => CaptureArgs::check_known(&unknown.borrow()),
        failed => Err(Failure::new(format!(
            "{failed} of {} could not be read",
            counted(captures.len() as u64, "capture")
        ))),
    }
}
