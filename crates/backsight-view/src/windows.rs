//! Profiles of windows: what the page shows of them, their code, their differences, and what exporters make of them.

use std::sync::{Arc, Mutex, PoisonError};

use backsight::Error;
use backsight_profile::export::{ExportOptions, FORMATS, Format, Weight};
use backsight_profile::report::{self, Compared, Limits, ReportOptions};
use backsight_profile::{CountOptions, Profile, count, count_windows};
use serde_json::{Value, json};

use crate::ask::{Ask, Selection};
use crate::names::shown;
use crate::running::Ticket;
use crate::view::{Answer, Failed, View};

/// Profiles that are kept.
const MOST_KEPT: usize = 6;

/// Calls over time that exporters are given.
const SLICES: usize = 200_000;

const LIMITS: Limits = Limits { functions: 5_000, details: 0, branches: 1_000 };

/// Profiles that were counted last.
#[derive(Default)]
pub(crate) struct Counted(Mutex<Vec<(Selection, Arc<Profile>)>>);

impl Counted {
    fn get(&self, selection: &Selection) -> Option<Arc<Profile>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|one| one.0 == *selection)?;
        let found = kept.remove(place);
        kept.push(found.clone());
        Some(found.1)
    }

    fn insert(&self, selection: Selection, profile: Arc<Profile>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST_KEPT {
            kept.remove(0);
        }
        kept.push((selection, profile));
    }
}

/// What the page may have a window written as.
pub(crate) fn formats() -> Value {
    let list = FORMATS.iter().map(|format| json!([format.name, format.title, format.readers]));
    let report = json!(["report", "one HTML page", "browsers"]);
    list.chain([report]).collect()
}

impl View<'_> {
    fn count(&self, selection: &Selection, timeline: usize, ticket: &Ticket<'_>) -> Result<Profile, Failed> {
        let recording = self.recording(selection.0[0].recording)?;
        let decode = recording.decode.clone().stop_on(Arc::clone(&ticket.flag)).positions(false);
        let options = CountOptions { timeline, ..CountOptions::default() };
        let is_all = (0..recording.sources.len()).all(|source| {
            let all = recording.known(source).map_or(u64::MAX, |known| known.instructions);
            all == 0
                || selection.0.iter().any(|part| (part.source, part.from) == (source, 0) && part.to >= all)
        });
        let profile = if is_all {
            // All cores count all of it.
            count(recording.capture, decode.threads(self.threads()), &options)?.0
        } else {
            let mut windows = Vec::new();
            for part in &selection.0 {
                let source = recording.sources.get(part.source).ok_or("there is no such source")?;
                windows.push((source.clone(), part.window()));
            }
            count_windows(recording.capture, &recording.moments(), decode, windows, &options, self.threads())?
                .0
        };
        if ticket.is_given_up() {
            return Err(Failed::GivenUp);
        }
        Ok(profile)
    }

    pub(crate) fn profile_of(
        &self,
        selection: &Selection,
        ticket: &Ticket<'_>,
    ) -> Result<Arc<Profile>, Failed> {
        if let Some(known) = self.counted.get(selection) {
            return Ok(known);
        }
        let profile = Arc::new(self.count(selection, 0, ticket)?);
        self.counted.insert(selection.clone(), Arc::clone(&profile));
        Ok(profile)
    }

    pub(crate) fn profile(&self, ask: Ask<'_>, ticket: &Ticket<'_>) -> Result<Value, Failed> {
        let profile = self.profile_of(&ask.windows("w")?, ticket)?;
        let weight = weight_of(ask, &profile);
        Ok(report::profile_data(&profile, weight, &self.sources, LIMITS))
    }

    pub(crate) fn function(&self, ask: Ask<'_>, ticket: &Ticket<'_>) -> Result<Value, Failed> {
        let profile = self.profile_of(&ask.windows("w")?, ticket)?;
        Ok(report::function_code(&profile, ask.get("function")?, &self.sources))
    }

    pub(crate) fn compare(&self, ask: Ask<'_>, ticket: &Ticket<'_>) -> Result<Value, Failed> {
        let (one, other) = (ask.windows("a")?, ask.windows("b")?);
        let names = [self.selection_name(&one)?, self.selection_name(&other)?];
        let (one, other) = (self.profile_of(&one, ticket)?, self.profile_of(&other, ticket)?);
        let weight = weight_of(ask, &one);
        Ok(report::comparison(&one, &Compared { names, profile: &other }, weight))
    }

    fn selection_name(&self, selection: &Selection) -> Result<String, Failed> {
        let recording = self.recording(selection.0[0].recording)?;
        let parts = selection.0.iter().take(4).map(|part| {
            let name = recording.sources.get(part.source).map_or("", |source| source.name());
            format!("{name} #{} to #{}", part.from, part.to)
        });
        let more = if selection.0.len() > 4 { " …" } else { "" };
        Ok(shown(&format!("{}: {}{more}", recording.name, parts.collect::<Vec<_>>().join(", "))))
    }

    /// A window, as an exporter writes it.
    pub(crate) fn export(&self, ask: Ask<'_>, ticket: &Ticket<'_>) -> Result<Answer, Failed> {
        let selection = ask.windows("w")?;
        let name: String = ask.get("format")?;
        let title = self.selection_name(&selection)?;
        let mut body = Vec::new();
        if name == "report" {
            let profile = self.count(&selection, SLICES, ticket)?;
            let options = ReportOptions {
                facts: vec![("Window".to_owned(), title.clone())],
                title,
                weight: weight_of(ask, &profile),
                sources: self.sources.clone(),
                ..ReportOptions::default()
            };
            report::write(&profile, &options, &mut body).map_err(|error| error.to_string())?;
            return Ok(Answer::file("report.html", "text/html; charset=utf-8", body));
        }
        let format = Format::named(&name).ok_or("there is no such format")?;
        let slices = if format.needs_timeline() { SLICES } else { 0 };
        let profile = match slices {
            0 => self.profile_of(&selection, ticket)?,
            _ => Arc::new(self.count(&selection, slices, ticket)?),
        };
        let options = ExportOptions { weight: weight_of(ask, &profile), title, ..ExportOptions::default() };
        format.write(&profile, &options, &mut body).map_err(|error| error.to_string())?;
        let kind = if format.is_json() { "application/json" } else { "application/octet-stream" };
        Ok(Answer::file(&format!("window.{}", extension(&name)), kind, body))
    }
}

fn weight_of(ask: Ask<'_>, profile: &Profile) -> Weight {
    match ask.text("weight") {
        Some("cycles") if profile.has_cycles() => Weight::Cycles,
        _ => Weight::Instructions,
    }
}

/// How files of a format are called, so that others know them.
fn extension(format: &str) -> &str {
    match format {
        "pprof" => "pb.gz",
        "perfetto" => "pftrace",
        "speedscope" => "speedscope.json",
        "chrome" | "firefox" | "json" | "paths" => "json",
        "lcov" => "info",
        "cobertura" => "xml",
        "functions" | "blocks" | "edges" | "branches" | "loops" => "csv",
        _ => "profile",
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Because(error.to_string())
    }
}
