//! Lines from outside, each read with a bound on its size.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// The longest line that is read, in bytes (16 MiB).
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// Reads lines one by one and never holds more than one.
#[derive(Debug)]
pub struct LineReader<R> {
    input: BufReader<R>,
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// A reader that has read nothing.
    pub fn new(input: R) -> Self {
        Self { input: BufReader::new(input), line: Vec::new() }
    }

    /// The next line without its end; the last one may lack an end. `None` after it. Bytes that are not UTF-8 are
    /// replaced, so that they fail where the line is parsed.
    ///
    /// # Errors
    /// The input's own error; [`io::ErrorKind::InvalidData`] for a line longer than [`LINE_BYTES_MAX`].
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: what was read of a line stays in the reader.
    pub async fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            let bytes = self.input.fill_buf().await?;
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let last = bytes.is_empty();
            let taken = end.unwrap_or(bytes.len());
            self.line.extend(bytes.iter().take(taken));
            self.input.consume(end.map_or(taken, |end| end + 1));
            if self.line.len() > LINE_BYTES_MAX {
                let words = format!("a line is longer than {LINE_BYTES_MAX} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, words));
            }
            if end.is_some() || (last && !self.line.is_empty()) {
                return Ok(Some(self.finish()));
            }
            if last {
                return Ok(None);
            }
        }
    }

    fn finish(&mut self) -> String {
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        String::from_utf8(line).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

#[cfg(test)]
mod tests;
