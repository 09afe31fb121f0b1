//! The pages of a column chunk.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::snappy::Block;

/// Compression has to save a tenth, or the chunk is not compressed.
const WORTH: f64 = 0.9;

/// A chunk, and what the file says about it.
pub(super) type Chunk = (Bytes, ColumnCloseResult);

/// What a page holds.
pub(super) enum Body {
    /// Bytes, which may be compressed.
    Plain(Vec<u8>),
    /// What was compressed by its maker, and how long it was before.
    Compressed { bytes: Vec<u8>, length: usize },
}

/// The pages of a chunk.
pub(super) struct Pages {
    written: TrackedWrite<Vec<u8>>,
    /// `None` until the first page was tried.
    is_compressed: Option<bool>,
    encoder: snap::raw::Encoder,
    /// Room for what is compressed.
    compressed: Vec<u8>,
    /// The dictionary waits for the first page: both are compressed, or none.
    dictionary: Option<(Vec<u8>, u32)>,
    uncompressed: usize,
    /// Where the first page of values is.
    values_at: Option<usize>,
}

impl Pages {
    /// All pages are compressed or none is; where nothing is said, the first one is tried.
    pub fn new(is_compressed: Option<bool>) -> Self {
        Self {
            written: TrackedWrite::new(Vec::new()),
            is_compressed,
            encoder: snap::raw::Encoder::new(),
            compressed: Vec::new(),
            dictionary: None,
            uncompressed: 0,
            values_at: None,
        }
    }

    /// The values come from a dictionary: its page, and how many it has.
    pub fn set_dictionary(&mut self, page: Vec<u8>, size: u32) {
        self.dictionary = Some((page, size));
    }

    fn compress(&mut self, body: &[u8]) -> Result<&[u8]> {
        let room = snap::raw::max_compress_len(body.len());
        if self.compressed.len() < room {
            self.compressed.resize(room, 0);
        }
        let length = self.encoder.compress(body, &mut self.compressed);
        let length = length.map_err(|error| ParquetError::External(Box::new(error)))?;
        Ok(&self.compressed[..length])
    }

    /// Appends bytes to a block, of which some may be copies of others.
    pub fn search(&mut self, bytes: &[u8], block: &mut Block) {
        block.search(bytes, &mut self.encoder);
    }

    /// Writes a page of values. It comes compressed only if all do.
    pub fn put(&mut self, body: Body, rows: u32, encoding: Encoding) -> Result<()> {
        if let Body::Plain(body) = &body
            && self.is_compressed.is_none()
        {
            let is_worth_it = (self.compress(body)?.len() as f64) < WORTH * body.len() as f64;
            self.is_compressed = Some(is_worth_it);
        }
        if let Some((page, size)) = self.dictionary.take() {
            let length = page.len();
            let buf = self.packed(page)?;
            let page =
                Page::DictionaryPage { buf, num_values: size, encoding: Encoding::PLAIN, is_sorted: false };
            self.write(page, length)?;
        }
        self.values_at.get_or_insert(self.written.bytes_written());
        let (buf, length) = match body {
            Body::Compressed { bytes, length } => (bytes.into(), length),
            Body::Plain(body) => {
                let length = body.len();
                (self.packed(body)?, length)
            }
        };
        let page = Page::DataPage {
            buf,
            num_values: rows,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        self.write(page, length)
    }

    /// What stands for some bytes in the file.
    fn packed(&mut self, body: Vec<u8>) -> Result<Bytes> {
        match self.is_compressed {
            Some(true) => Ok(Bytes::copy_from_slice(self.compress(&body)?)),
            _ => Ok(body.into()),
        }
    }

    fn write(&mut self, page: Page, uncompressed: usize) -> Result<()> {
        let page = CompressedPage::new(page, uncompressed);
        let written = SerializedPageWriter::new(&mut self.written).write_page(page)?;
        self.uncompressed += written.uncompressed_size;
        Ok(())
    }

    pub fn finish(
        self,
        description: &ColumnDescPtr,
        encoding: Encoding,
        statistics: Statistics,
        rows: usize,
    ) -> Result<Chunk> {
        let bytes = self.written.into_inner()?;
        let has_dictionary = encoding == Encoding::RLE_DICTIONARY;
        let mut encodings = vec![Encoding::RLE, encoding];
        encodings.extend(has_dictionary.then_some(Encoding::PLAIN));
        let compression = match self.is_compressed {
            Some(true) => Compression::SNAPPY,
            _ => Compression::UNCOMPRESSED,
        };
        let metadata = ColumnChunkMetaData::builder(description.clone())
            .set_encodings(encodings)
            .set_compression(compression)
            .set_num_values(rows as i64)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(self.uncompressed as i64)
            .set_data_page_offset(self.values_at.unwrap_or(0) as i64)
            .set_dictionary_page_offset(has_dictionary.then_some(0))
            .set_statistics(statistics)
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes.into(), close))
    }
}
