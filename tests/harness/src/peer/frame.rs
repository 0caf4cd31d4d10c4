//! Turns what a server says into the bytes of a line, and writes them, one at a time if the script says so.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::fault::{Bom, Fault, Newline};
use super::plan::Live;

/// Bytes of a flood that are written at once.
const FLOOD_BYTES: usize = 1 << 16;
const BOM: &str = "\u{feff}";

/// One thing that a server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// The response to a request.
    Answer(String),
    /// A notice or a question of the server.
    Notice(String),
    /// A text that is no message.
    Raw(String),
    /// A line of so many MiB.
    Flood(u64),
}

/// Where the frames of a connection, or of one request, go.
pub(super) type Out = mpsc::Sender<Frame>;

impl Frame {
    pub(super) fn notice(message: &Value) -> Self {
        Self::Notice(message.to_string())
    }
}

/// Whether something goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    On,
    End,
}

/// How the bytes of a connection look and how fast they come.
#[derive(Debug, Clone)]
pub(super) struct Manner {
    pub(super) junk: Vec<String>,
    bom: Option<Bom>,
    newline: &'static str,
    drip: Option<Duration>,
}

impl Manner {
    pub(super) fn of(live: &Live) -> Self {
        let junk =
            live.script.faults.iter().filter_map(|fault| {
                if let Fault::JunkLine(text) = fault { Some(text.clone()) } else { None }
            });
        Self {
            junk: junk.collect(),
            bom: live.last(|fault| if let Fault::Bom(bom) = fault { Some(*bom) } else { None }),
            newline: live.last(newline_of).unwrap_or("\n"),
            drip: live.last(|fault| {
                if let Fault::DripMs(ms) = fault { Some(Duration::from_millis(*ms)) } else { None }
            }),
        }
    }

    pub(super) fn newline(&self) -> &'static str {
        self.newline
    }

    /// The mark before the line with this number, counted from 0.
    pub(super) fn mark(&self, line: u64) -> &'static str {
        match self.bom {
            Some(Bom::First) if line > 0 => "",
            Some(Bom::First | Bom::Every) => BOM,
            None => "",
        }
    }

    /// Writes bytes as fast as the script says.
    pub(super) async fn write<W: AsyncWrite + Unpin>(
        &self,
        write: &mut W,
        bytes: &[u8],
    ) -> std::io::Result<()> {
        let Some(gap) = self.drip else {
            write.write_all(bytes).await?;
            return write.flush().await;
        };
        for byte in bytes {
            write.write_all(&[*byte]).await?;
            write.flush().await?;
            tokio::time::sleep(gap).await;
        }
        Ok(())
    }
}

fn newline_of(fault: &Fault) -> Option<&'static str> {
    let named = if let Fault::Newline(newline) = fault { Some(*newline) } else { None };
    let crlf = matches!(fault, Fault::Crlf(true)).then_some(Newline::Crlf);
    let newline = named.or(crlf);
    newline.map(|newline| match newline {
        Newline::Lf => "\n",
        Newline::Crlf => "\r\n",
        Newline::Cr => "\r",
    })
}

/// Writes so many MiB without an end of a line, in pieces.
pub(super) async fn flood<W: AsyncWrite + Unpin>(write: &mut W, mib: u64) -> std::io::Result<()> {
    let piece = vec![b'x'; FLOOD_BYTES];
    for _ in 0..mib.saturating_mul((1 << 20) / FLOOD_BYTES as u64) {
        write.write_all(&piece).await?;
    }
    write.flush().await
}

/// Writes frames as lines until nobody sends or nobody reads.
pub(super) async fn write_lines<W: AsyncWrite + Unpin>(
    mut write: W,
    mut frames: mpsc::Receiver<Frame>,
    live: impl Fn() -> std::sync::Arc<Live>,
) {
    let mut number = 0;
    while let Some(frame) = frames.recv().await {
        let manner = Manner::of(&live());
        let end = manner.newline();
        let written = match frame {
            Frame::Answer(text) => {
                let junk: String = manner.junk.iter().map(|line| format!("{line}{end}")).collect();
                let line = format!("{junk}{}{text}{end}", manner.mark(number));
                number += 1;
                manner.write(&mut write, line.as_bytes()).await
            }
            Frame::Notice(text) => {
                let line = format!("{}{text}{end}", manner.mark(number));
                number += 1;
                manner.write(&mut write, line.as_bytes()).await
            }
            Frame::Raw(text) => manner.write(&mut write, text.as_bytes()).await,
            Frame::Flood(mib) => match flood(&mut write, mib).await {
                Ok(()) => manner.write(&mut write, end.as_bytes()).await,
                Err(error) => Err(error),
            },
        };
        if written.is_err() {
            return;
        }
    }
}
