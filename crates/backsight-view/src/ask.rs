//! What a request asks for, by names and values.

use std::str::FromStr;

use backsight::moments::{Moment, Window};

/// Names and values of a request.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'r>(pub &'r [(String, String)]);

impl<'r> Ask<'r> {
    pub fn text(self, name: &str) -> Option<&'r str> {
        self.0.iter().find(|one| one.0 == name).map(|one| one.1.as_str())
    }

    /// A value that has to be there.
    pub fn get<T: FromStr>(self, name: &str) -> Result<T, String> {
        let text = self.text(name).ok_or_else(|| format!("`{name}` is missing"))?;
        text.parse().map_err(|_| format!("`{name}` is no value of its kind"))
    }

    pub fn or<T: FromStr>(self, name: &str, otherwise: T) -> Result<T, String> {
        if self.text(name).is_none() { Ok(otherwise) } else { self.get(name) }
    }

    /// The windows of a selection, as in `0.1:100-200,0.2:50-60`: recording, source, from, to.
    pub fn windows(self, name: &str) -> Result<Selection, String> {
        let text = self.text(name).ok_or_else(|| format!("`{name}` is missing"))?;
        let mut parts = text.split(',').map(parse_window).collect::<Option<Vec<_>>>();
        parts.iter_mut().for_each(|parts| parts.sort_unstable());
        let parts = parts.filter(|parts| {
            parts.len() <= 256 && parts.iter().all(|one| one.recording == parts[0].recording)
        });
        parts.map(Selection).ok_or_else(|| format!("`{name}`: no windows of one recording"))
    }
}

fn parse_window(text: &str) -> Option<Part> {
    let (place, span) = text.split_once(':')?;
    let ((recording, source), (from, to)) = (place.split_once('.')?, span.split_once('-')?);
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    Some(Part { recording: recording.parse().ok()?, source: source.parse().ok()?, from, to })
        .filter(|_| from < to)
}

/// A window of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Part {
    pub recording: usize,
    pub source: usize,
    pub from: u64,
    pub to: u64,
}

impl Part {
    pub fn window(&self) -> Window {
        Window { from: Some(Moment::Instruction(self.from)), to: Some(Moment::Instruction(self.to)) }
    }
}

/// Windows of sources of one recording.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Selection(pub Vec<Part>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_of_one_recording_and_not_empty() {
        let ask = |text: &str| {
            let list = [("w".to_owned(), text.to_owned())];
            Ask(&list).windows("w").ok().map(|found| found.0.len())
        };
        assert_eq!(ask("0.1:100-200,0.2:50-60"), Some(2));
        for wrong in [
            "",
            "0.1:100-100",
            "0.1:1-2,1.1:1-2",
            "0.1:1-",
            "0.1:5-2",
            "0.1:1-99999999999999999999",
            "x.1:1-2",
        ] {
            assert_eq!(ask(wrong), None, "{wrong}");
        }
    }
}
