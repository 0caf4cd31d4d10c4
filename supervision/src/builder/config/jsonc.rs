//! Takes comments and trailing commas out of JSON; every other byte stays in its line and column.
//!
//! Written here because it is one page, and a crate for it would bring a second JSON parser.

/// A comment that does not end, and the line in which it begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OpenComment {
    pub(super) line: usize,
}

/// Plain JSON with blanks in the place of what was taken out.
pub(super) fn plain(text: &str) -> Result<String, OpenComment> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut plain = String::with_capacity(text.len());
    // Where the last comma stands, if nothing but blanks and comments came after it.
    let mut comma = None;
    let mut chars = text.chars().peekable();
    let mut line = 1;
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('"', _) => {
                comma = None;
                plain.push(c);
                line += string(&mut chars, &mut plain);
            }
            ('/', Some('/')) => {
                while chars.peek().is_some_and(|c| *c != '\n') {
                    chars.next();
                }
            }
            ('/', Some('*')) => {
                chars.next();
                let begins = line;
                line += comment(&mut chars, &mut plain).ok_or(OpenComment { line: begins })?;
            }
            (']' | '}', _) => {
                if let Some(at) = comma.take() {
                    plain.replace_range(at..=at, " ");
                }
                plain.push(c);
            }
            (',', _) => {
                comma = Some(plain.len());
                plain.push(c);
            }
            (blank, _) if blank.is_whitespace() => {
                line += usize::from(blank == '\n');
                plain.push(blank);
            }
            (other, _) => {
                comma = None;
                plain.push(other);
            }
        }
    }
    Ok(plain)
}

/// The rest of a string; how many lines it has.
fn string(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, plain: &mut String) -> usize {
    let mut lines = 0;
    while let Some(c) = chars.next() {
        plain.push(c);
        match c {
            '"' => break,
            '\\' => plain.extend(chars.next()),
            '\n' => lines += 1,
            _ => {}
        }
    }
    lines
}

/// The rest of a comment between `/*` and `*/`; how many lines it has, `None` if it does not end.
fn comment(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, plain: &mut String) -> Option<usize> {
    let mut lines = 0;
    loop {
        match (chars.next()?, chars.peek()) {
            ('*', Some('/')) => {
                chars.next();
                plain.push(' ');
                return Some(lines);
            }
            ('\n', _) => {
                lines += 1;
                plain.push('\n');
            }
            (_, _) => {}
        }
    }
}
