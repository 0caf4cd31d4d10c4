//! Decides what the terms of a text are.
//!
//! - A word is a run of letters and digits. One with humps (`createPullRequest`, `GitHub`) gives its parts and itself.
//! - Words are lower-cased, Latin accents and full-width forms folded, English endings cut.
//! - Chinese, Japanese and Korean write no blanks between words, or glue particles to them: each pair of neighbours is a
//!   term. Texts that are searched also give the single characters, for questions of one.

use any_ascii::any_ascii_char;

use super::stem::stem;

/// The longest word, in characters. A longer run is no word (a digest, an encoded file) and gives no term.
const WORD_MAX: usize = 40;

/// English words that tell no tool from another.
const STOP_WORDS: [&str; 40] = [
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "for", "from", "has", "have", "i", "if",
    "in", "into", "is", "it", "its", "me", "my", "of", "on", "or", "please", "some", "that", "the", "their",
    "them", "then", "these", "this", "to", "using", "want", "was", "with",
];

/// Which side of a search a text stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// What is searched.
    Tool,
    /// What is asked.
    Question,
}

/// Whether a term is one of those that tell no tool from another.
pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// Gives the terms of a text in order, with repetitions, as long as `each` answers that it takes more.
pub(super) fn each_term(text: &str, side: Side, mut each: impl FnMut(&str) -> Flow) {
    let mut run = Run::default();
    for c in text.chars().map(narrow) {
        let kind = Kind::of(c);
        if kind != run.kind && run.end(side, &mut each) == Flow::Stop {
            return;
        }
        run.kind = kind;
        if kind != Kind::Between && !run.push(c, side, &mut each) {
            return;
        }
    }
    run.end(side, &mut each);
}

/// Whether more terms are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// They are.
    More,
    /// They are not.
    Stop,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Between,
    Word,
    Unspaced,
}

impl Kind {
    fn of(c: char) -> Self {
        if is_unspaced(c) {
            Self::Unspaced
        } else if c.is_alphanumeric() {
            Self::Word
        } else {
            Self::Between
        }
    }
}

/// Characters of one kind in a row.
#[derive(Default)]
struct Run {
    kind: Kind,
    /// A word's characters, at most one more than a word may have; of an unspaced script the last two.
    chars: Vec<char>,
    /// How many there were in all.
    length: usize,
}

impl Run {
    /// Whether more terms are taken.
    fn push(&mut self, c: char, side: Side, each: &mut impl FnMut(&str) -> Flow) -> bool {
        self.length += 1;
        if self.kind == Kind::Word {
            if self.chars.len() <= WORD_MAX {
                self.chars.push(c);
            }
            return true;
        }
        let mut flow = Flow::More;
        if side == Side::Tool {
            flow = each(c.encode_utf8(&mut [0; 4]));
        }
        if let Some(before) = self.chars.pop() {
            flow = each(&String::from_iter([before, c]));
        }
        self.chars.push(c);
        flow == Flow::More
    }

    fn end(&mut self, side: Side, each: &mut impl FnMut(&str) -> Flow) -> Flow {
        let (chars, length) = (std::mem::take(&mut self.chars), std::mem::take(&mut self.length));
        match self.kind {
            Kind::Between => Flow::More,
            Kind::Word if length > WORD_MAX => Flow::More,
            Kind::Word => words(&chars, each),
            Kind::Unspaced if side == Side::Question && length == 1 => each(&String::from_iter(chars)),
            Kind::Unspaced => Flow::More,
        }
    }
}

/// The parts of a word with humps, then the word itself.
fn words(chars: &[char], each: &mut impl FnMut(&str) -> Flow) -> Flow {
    let mut from = 0;
    for at in 1..chars.len() {
        if starts_hump(chars, at) {
            if each(&folded(&chars[from..at])) == Flow::Stop {
                return Flow::Stop;
            }
            from = at;
        }
    }
    if from > 0 && each(&folded(&chars[from..])) == Flow::Stop {
        return Flow::Stop;
    }
    each(&folded(chars))
}

/// `pullRequest` at R, `HTMLParser` at P.
fn starts_hump(chars: &[char], at: usize) -> bool {
    let is = |at: usize, what: fn(char) -> bool| chars.get(at).copied().is_some_and(what);
    is(at, char::is_uppercase)
        && (is(at - 1, |c| !c.is_uppercase())
            || (is(at + 1, char::is_lowercase) && is(at - 1, char::is_uppercase)))
}

fn folded(chars: &[char]) -> String {
    let mut word = String::with_capacity(chars.len());
    for c in chars {
        match c {
            // Latin letters with accents; other scripts are not romanised, their words would no longer be told apart.
            '\u{c0}'..='\u{24f}' => word.push_str(&any_ascii_char(*c).to_ascii_lowercase()),
            c => word.extend(c.to_lowercase()),
        }
    }
    if !is_stop_word(&word) {
        stem(&mut word);
    }
    word
}

/// A full-width form's usual one.
fn narrow(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        '\u{3000}' => ' ',
        c => c,
    }
}

fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30fa}' | '\u{30fc}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9d}'
        | '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{ac00}'..='\u{d7af}'
        | '\u{20000}'..='\u{3ffff}')
}
