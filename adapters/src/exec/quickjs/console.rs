//! What a script has logged, up to a bound; readable also when the script hangs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lines of one script.
#[derive(Debug, Clone)]
pub(super) struct Console(Arc<Mutex<Lines>>);

#[derive(Debug)]
struct Lines {
    text: String,
    room: usize,
    /// Lines that found no room, or not all of it.
    cut: u64,
}

impl Console {
    pub(super) fn new(room: usize) -> Self {
        Self(Arc::new(Mutex::new(Lines { text: String::new(), room, cut: 0 })))
    }

    /// Bytes that still fit.
    pub(super) fn room(&self) -> usize {
        self.lines().room
    }

    /// Takes a line, or as much of it as fits.
    pub(super) fn log(&self, line: &str) {
        let mut lines = self.lines();
        if line.len() < lines.room {
            lines.text.push_str(line);
            lines.text.push('\n');
            lines.room -= line.len() + 1;
        } else {
            let fits = lines.room;
            let end = (0..=fits.min(line.len())).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(0);
            lines.text.push_str(&line[..end]);
            lines.room = 0;
            lines.cut += 1;
        }
    }

    /// Everything that was kept; `None` if nothing was logged.
    pub(super) fn shown(&self) -> Option<String> {
        let lines = self.lines();
        match (lines.text.trim_end_matches('\n'), lines.cut) {
            ("", 0) => None,
            (text, 0) => Some(text.to_owned()),
            (text, cut) => Some(format!("{text}\n[cut: {cut} more lines were logged]")),
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        // Nothing is left half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
