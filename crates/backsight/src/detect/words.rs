//! What was found, in words, and the command to go on with.

use std::fmt;

use super::{Confidence, Detection, Found, Reading, Wrapping};
use crate::listing::Printable;

/// Trace IDs that are listed.
const LISTED: usize = 8;

impl Confidence {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Possible => "possible",
            Self::Likely => "likely",
            Self::Certain => "certain",
        }
    }
}

impl Reading {
    /// The options of a command that reads it, once all steps are undone.
    pub fn options(&self) -> Vec<String> {
        let mut options = vec!["--protocol".to_owned(), self.protocol.to_owned()];
        if self.framing != "raw" && !(self.protocol == "etrace" && self.framing == "reference") {
            options.extend(["--framing".to_owned(), self.framing.to_owned()]);
        }
        for setting in &self.config {
            options.extend(["--config".to_owned(), (*setting).to_owned()]);
        }
        // Sources of other protocols would be taken for this one.
        if self.ids.iter().any(|(_, protocol)| *protocol != Some(self.protocol)) {
            for (id, _) in self.ids.iter().filter(|(_, protocol)| *protocol == Some(self.protocol)) {
                options.extend(["--id".to_owned(), id.to_string()]);
            }
        }
        options
    }

    /// What it is: protocol, framing, and what lies around it.
    pub fn what(&self) -> String {
        let mut what = name(self.protocol).to_owned();
        if let Some(also) = self.also {
            what += &format!(" or {}", name(also));
        }
        what += &match self.framing {
            "raw" => String::new(),
            "coresight" => " in CoreSight frames".to_owned(),
            "tpiu" | "tpiu-hsync" => " in frames of a trace port".to_owned(),
            "dstream" => " in a DSTREAM dump".to_owned(),
            framing => format!(" ({framing} framing)"),
        };
        for step in &self.steps {
            what += &format!("; it {}", step.words());
        }
        what
    }

    /// What speaks for it.
    pub fn evidence(&self) -> String {
        let syncs = match self.syncs {
            0 => "no synchronisation".to_owned(),
            1 => "1 synchronisation".to_owned(),
            count => format!("{count} synchronisations"),
        };
        let share = (self.share * 1000.0).floor() / 10.0;
        format!("{}: {syncs}, {share} % of {} bytes make sense", self.confidence.name(), self.sample)
    }

    fn ids(&self) -> Option<String> {
        let of = |(id, protocol): &(_, Option<&str>)| match protocol {
            Some(protocol) if *protocol != self.protocol => format!("{id} ({})", name(protocol)),
            Some(_) => format!("{id}"),
            None => format!("{id} (not recognised)"),
        };
        let listed: Vec<String> = self.ids.iter().take(LISTED).map(of).collect();
        let thing = if self.ids.len() == 1 { "trace ID" } else { "trace IDs" };
        (!listed.is_empty()).then(|| format!("{thing} {}", listed.join(", ")))
    }
}

/// A protocol as its manual calls it.
fn name(protocol: &str) -> &str {
    match protocol {
        "etm4" => "ETMv4",
        "ete" => "ETE",
        "ptm" => "PTM",
        "etm3" => "ETMv3",
        "itm" => "ITM",
        "stm" => "STM",
        "etrace" => "E-Trace",
        "ntrace" => "N-Trace",
        other => other,
    }
}

impl Detection {
    /// What it holds, in one sentence.
    pub fn what(&self) -> String {
        match &self.found {
            Found::Empty => "the file is empty".to_owned(),
            Found::Constant(byte) => {
                format!("all bytes that were looked at are {byte:#04x}: no trace was written")
            }
            Found::Other(kind) => format!("this is {}", kind.what),
            Found::Unknown => {
                "this is no trace of a protocol that is known, read in any usual way".to_owned()
            }
            Found::Trace(reading) => {
                let ids = reading.ids().map_or_else(String::new, |ids| format!("; {ids}"));
                let shifted = reading.shifted.map_or_else(String::new, |at| {
                    format!("; near offset {at:#x} frames begin at another byte: some were lost before")
                });
                format!("this is {} ({}){ids}{shifted}", reading.what(), reading.evidence())
            }
        }
    }

    /// What to do about it; may be empty.
    pub fn advice(&self) -> String {
        match &self.found {
            Found::Empty | Found::Constant(_) => {
                "see that the trace unit and the sink were enabled, and that the trace was copied out"
                    .to_owned()
            }
            Found::Other(kind) => kind.advice.clone(),
            Found::Unknown => "if it is trace, say --protocol, --framing and --config".to_owned(),
            Found::Trace(reading) => match reading.also {
                Some("ete") => "for a processor with an ETE (Armv9), say --protocol ete instead".to_owned(),
                _ => String::new(),
            },
        }
    }

    /// The commands to go on with, one a line: `verb` is the one that reads it. None where there is no trace.
    pub fn commands(&self, verb: &str) -> Vec<String> {
        let Some(reading) = self.reading() else { return Vec::new() };
        let (mut commands, mut file) = (Vec::new(), self.name.clone());
        for (number, step) in reading.steps.iter().enumerate() {
            let suffix =
                if number + 1 == reading.steps.len() { ".trace".to_owned() } else { format!(".{number}") };
            let next = self.name.clone() + &suffix;
            commands.push(Wrapping::undo(*step, &quoted(&file), &quoted(&next)));
            file = next;
        }
        commands.push(format!("backsight {verb} {} {}", quoted(&file), reading.options().join(" ")));
        commands
    }

    /// How sure it is that this is trace which can be read; `None` where there is none.
    pub fn confidence(&self) -> Option<Confidence> {
        self.reading().map(|reading| reading.confidence)
    }
}

/// All of it: what the file holds, what to do, and the commands.
impl fmt::Display for Detection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = if self.reading().is_some() { "a bare file says nothing about itself; " } else { "" };
        write!(f, "{}: {bare}{}", Printable(&self.name), self.what())?;
        let advice = self.advice();
        if !advice.is_empty() {
            write!(f, " ({advice})")?;
        }
        let commands = self.commands("info");
        if !commands.is_empty() {
            f.write_str("\ngo on with:")?;
        }
        commands.iter().try_for_each(|command| write!(f, "\n  {}", Printable(command)))
    }
}

/// A name as a shell takes it.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    match name.starts_with('-') || !name.chars().all(is_plain) || name.is_empty() {
        true => format!("'{}'", name.replace('\'', "'\\''")),
        false => name.to_owned(),
    }
}
