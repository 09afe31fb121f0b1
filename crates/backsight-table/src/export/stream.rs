//! One table as a stream of Arrow.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use arrow_ipc::writer::StreamWriter;
use backsight::Capture;

use super::Exported;
use crate::{Error, Guard, Query};

/// Writes a table of some captures as one stream of Arrow (IPC). A capture that cannot be read is in the result, and the
/// others are written all the same.
///
/// # Errors
/// If the output cannot be written.
pub fn write_stream(
    query: &Query,
    captures: &[PathBuf],
    open: &dyn Fn(&Path) -> backsight::Result<Capture>,
    output: impl Write,
) -> io::Result<Exported> {
    let mut exported = Exported::default();
    let failed = |error| match error {
        arrow_schema::ArrowError::IoError(_, error) => error,
        other => io::Error::other(other),
    };
    let mut writer = StreamWriter::try_new(output, &query.schema()).map_err(failed)?;
    let mut remaining = query.limit;
    for path in captures {
        if remaining == Some(0) {
            break;
        }
        let mut query = query.clone();
        query.limit = remaining;
        // What cannot be looked at cannot be opened either.
        let guard = Guard::new(path);
        let opened = open(path)
            .map_err(Error::from)
            .and_then(|capture| query.of_capture(path, &capture).guard(guard?).read_arrow(&capture));
        let mut reader = match opened {
            Ok(reader) => reader,
            Err(error) => {
                exported.failed.push((path.clone(), error.to_string()));
                continue;
            }
        };
        let mut rows = 0;
        while let Some(batch) = reader.try_next() {
            match batch {
                Ok(batch) => {
                    rows += batch.num_rows() as u64;
                    writer.write(&batch).map_err(failed)?;
                }
                Err(error) => exported.failed.push((path.clone(), error.to_string())),
            }
        }
        exported.rows += rows;
        remaining = remaining.map(|remaining| remaining.saturating_sub(rows));
    }
    writer.finish().map_err(failed)?;
    Ok(exported)
}
