//! Arrow IPC files, batch by batch. The library trusts the lengths in a file; here they are checked
//! first, because a damaged one would take any amount of memory.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, root_as_footer, root_as_message};
use arrow_schema::SchemaRef;

/// The most that a byte of compressed data stands for: zstd has 128 KiB in 4 bytes.
const EXPANSION_MAX: u64 = 1 << 15;
/// The most that a batch, or all dictionaries together, may be in memory, in bytes; more if they
/// are large in the file, too.
const EXPANDED_MAX: u64 = 256 << 20;
/// Columns of a trace that are not all constant are seldom compressed to a tenth.
const EXPANSION_OF_ALL_MAX: u64 = 256;
/// Bytes at the end of a file: the length of the footer, and the mark.
const END_BYTES: usize = 10;

/// An open file.
pub(super) struct ArrowFile<R> {
    source: R,
    /// Its bytes.
    bytes: u64,
    schema: SchemaRef,
    decoder: FileDecoder,
    blocks: std::vec::IntoIter<Block>,
}

impl<R: Read + Seek> ArrowFile<R> {
    /// Reads the footer.
    pub(super) fn open(mut source: R) -> Result<ArrowFile<R>, String> {
        let bytes = source.seek(SeekFrom::End(0)).map_err(one_line)?;
        let begin = bytes.checked_sub(END_BYTES as u64).ok_or("the file is truncated")?;
        let end = read_at(&mut source, begin, END_BYTES)?;
        let length = read_footer_length(end.try_into().expect("ten bytes"))
            .map_err(|_| String::from("the file is truncated: it does not end as an Arrow file"))?;
        let begin = begin.checked_sub(length as u64).ok_or("the footer is damaged")?;
        let footer = read_at(&mut source, begin, length)?;
        let footer = root_as_footer(&footer).map_err(one_line)?;
        let schema = footer.schema().ok_or("the footer has no schema")?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(String::from("the file was written in another byte order"));
        }
        let schema = Arc::new(arrow_ipc::convert::try_fb_to_schema(schema).map_err(one_line)?);
        let blocks: Vec<Block> = footer.recordBatches().into_iter().flatten().copied().collect();
        let decoder = FileDecoder::new(Arc::clone(&schema), footer.version());
        let blocks = blocks.into_iter();
        let mut file = ArrowFile { source, bytes, schema, decoder, blocks };
        let mut total = 0;
        for block in footer.dictionaries().into_iter().flatten() {
            let (buffer, expanded) = file.read(block)?;
            // Several may be in the same place of the file.
            total += expanded;
            may_expand(total, file.bytes)?;
            file.decoder.read_dictionary(block, &buffer).map_err(one_line)?;
        }
        Ok(file)
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Reads only these columns.
    pub(super) fn only(self, columns: &[usize]) -> ArrowFile<R> {
        ArrowFile { decoder: self.decoder.with_projection(columns.to_vec()), ..self }
    }

    /// A block, whose lengths fit the file and its own data, and the bytes of what it describes.
    fn read(&mut self, block: &Block) -> Result<(Buffer, u64), String> {
        let damaged = || String::from("a block of the file has a length that cannot be");
        let begin = u64::try_from(block.offset()).map_err(|_| damaged())?;
        let head = usize::try_from(block.metaDataLength()).map_err(|_| damaged())?;
        let body = usize::try_from(block.bodyLength()).map_err(|_| damaged())?;
        let length = head.checked_add(body).ok_or_else(damaged)?;
        if begin.checked_add(length as u64).is_none_or(|end| end > self.bytes) {
            return Err(damaged());
        }
        let bytes = read_at(&mut self.source, begin, length)?;
        let expanded = expanded(&bytes[..head], &bytes[head..]).ok_or_else(damaged)?;
        may_expand(expanded, length as u64)?;
        Ok((Buffer::from_vec(bytes), expanded))
    }
}

/// Whether this many bytes of a file may be as many in memory as they say.
fn may_expand(expanded: u64, bytes: u64) -> Result<(), String> {
    if expanded <= EXPANDED_MAX.max(EXPANSION_OF_ALL_MAX.saturating_mul(bytes)) {
        return Ok(());
    }
    Err(format!(
        "a block of the file has {bytes} bytes, and expands to {} MiB: write the file with smaller \
         batches",
        expanded >> 20
    ))
}

/// The bytes of the buffers that a message describes, as they are in memory; `None`: they are not
/// within its body, or would expand to a size that they cannot have.
fn expanded(head: &[u8], body: &[u8]) -> Option<u64> {
    // A mark of four bytes, which old files lack, and the length.
    let skipped = if head.starts_with(&[0xff; 4]) { 8 } else { 4 };
    let message = root_as_message(head.get(skipped..)?).ok()?;
    let dictionary = message.header_as_dictionary_batch().and_then(|batch| batch.data());
    let batch = message.header_as_record_batch().or(dictionary)?;
    let compressed = batch.compression().is_some();
    let mut total = 0_u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let begin = usize::try_from(buffer.offset()).ok()?;
        let length = usize::try_from(buffer.length()).ok()?;
        let data = body.get(begin..begin.checked_add(length)?)?;
        let prefix =
            data.first_chunk().filter(|_| compressed).map(|says| i64::from_le_bytes(*says));
        let expanded = match prefix {
            None | Some(-1) => length as u64,
            Some(expanded) => u64::try_from(expanded).ok()?,
        };
        total = total.checked_add(expanded)?;
        if expanded > EXPANSION_MAX * length as u64 {
            return None;
        }
    }
    Some(total)
}

/// An error of another library, which may have several lines.
pub(super) fn one_line(error: impl std::fmt::Display) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn read_at(source: &mut (impl Read + Seek), begin: u64, length: usize) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; length];
    source.seek(SeekFrom::Start(begin)).map_err(one_line)?;
    source.read_exact(&mut bytes).map_err(one_line)?;
    Ok(bytes)
}

impl<R: Read + Seek> Iterator for ArrowFile<R> {
    type Item = Result<RecordBatch, String>;

    fn next(&mut self) -> Option<Result<RecordBatch, String>> {
        loop {
            let block = self.blocks.next()?;
            let read = self.read(&block);
            let batch = read.and_then(|(data, _)| {
                self.decoder.read_record_batch(&block, &data).map_err(one_line)
            });
            // A block may have no batch.
            if let Some(batch) = batch.transpose() {
                return Some(batch);
            }
        }
    }
}
