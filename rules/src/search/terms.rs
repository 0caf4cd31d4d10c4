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

/// English words that tell no tool from another: Snowball's list without its contractions, and what a request adds to
/// say that it is one; without `not` and `own`, the stems of `note` and `owned`.
const STOP_WORDS: [&str; 123] = [
    "a", "about", "above", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "before", "being", "below", "between", "both", "but", "by", "can", "could", "did",
    "do", "does", "doing", "during", "each", "for", "from", "further", "had", "has", "have", "having", "he",
    "help", "her", "here", "hers", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "itself",
    "just", "let", "me", "more", "most", "my", "need", "no", "nor", "of", "off", "on", "once", "only", "or",
    "other", "our", "ours", "out", "over", "please", "same", "she", "should", "so", "some", "such", "than",
    "that", "the", "their", "theirs", "them", "then", "there", "these", "they", "this", "those", "through",
    "to", "too", "under", "until", "up", "us", "use", "used", "using", "very", "want", "was", "we", "were",
    "what", "when", "where", "which", "while", "who", "whom", "why", "will", "with", "within", "would",
    "you", "your", "yours",
];

/// By first letter, the lengths of the stop words, as bits; none is longer than seven.
const STOP_LENGTHS: [u8; 26] = {
    let mut lengths = [0; 26];
    let mut at = 0;
    while at < STOP_WORDS.len() {
        let word = STOP_WORDS[at].as_bytes();
        lengths[(word[0] - b'a') as usize] |= 1 << word.len();
        at += 1;
    }
    lengths
};

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
    // Most words begin as no stop word of their length does.
    let may_be = match word.as_bytes() {
        [first @ b'a'..=b'z', ..] if word.len() < 8 => {
            STOP_LENGTHS[usize::from(first - b'a')] & (1 << word.len()) != 0
        }
        _ => false,
    };
    may_be && STOP_WORDS.binary_search(&word).is_ok()
}

/// Gives the terms of a text in order, with repetitions, as long as `each` answers that it takes more.
pub(super) fn each_term(text: &str, side: Side, mut each: impl FnMut(&str) -> Flow) {
    let mut run = Run::default();
    for c in text.chars() {
        let c = if c.is_ascii() { c } else { narrow(c) };
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
        if c.is_ascii() {
            if c.is_ascii_alphanumeric() { Self::Word } else { Self::Between }
        } else if is_unspaced(c) {
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
    /// Where terms are written, so that one costs no allocation.
    term: String,
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
            self.term.clear();
            self.term.extend([before, c]);
            flow = each(&self.term);
        }
        self.chars.push(c);
        flow == Flow::More
    }

    fn end(&mut self, side: Side, each: &mut impl FnMut(&str) -> Flow) -> Flow {
        let length = std::mem::take(&mut self.length);
        let flow = match self.kind {
            Kind::Between => Flow::More,
            Kind::Word if length > WORD_MAX => Flow::More,
            Kind::Word => words(&self.chars, &mut self.term, each),
            Kind::Unspaced if side == Side::Question && length == 1 => {
                self.term.clear();
                self.term.extend(&self.chars);
                each(&self.term)
            }
            Kind::Unspaced => Flow::More,
        };
        self.chars.clear();
        flow
    }
}

/// The parts of a word with humps, then the word itself.
fn words(chars: &[char], term: &mut String, each: &mut impl FnMut(&str) -> Flow) -> Flow {
    let mut from = 0;
    for at in 1..chars.len() {
        if starts_hump(chars, at) {
            fold(&chars[from..at], term);
            if each(term) == Flow::Stop {
                return Flow::Stop;
            }
            from = at;
        }
    }
    if from > 0 {
        fold(&chars[from..], term);
        if each(term) == Flow::Stop {
            return Flow::Stop;
        }
    }
    fold(chars, term);
    each(term)
}

/// A name with blanks between the parts of its words.
pub(super) fn spaced(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::with_capacity(name.len() + 8);
    for (at, c) in chars.iter().enumerate() {
        if starts_hump(&chars, at) {
            out.push(' ');
        }
        out.push(*c);
    }
    out
}

/// `pullRequest` at R, `HTMLParser` at P.
fn starts_hump(chars: &[char], at: usize) -> bool {
    let is_upper = |at: usize| chars.get(at).is_some_and(|c| c.is_uppercase());
    let is_lower = |at: usize| chars.get(at).is_some_and(|c| c.is_lowercase());
    at > 0 && is_upper(at) && (!is_upper(at - 1) || is_lower(at + 1))
}

/// Writes a word as its term.
fn fold(chars: &[char], word: &mut String) {
    word.clear();
    for c in chars {
        match c {
            '\0'..='\u{7f}' => word.push(c.to_ascii_lowercase()),
            // Latin letters with accents; other scripts are not romanised, their words would no longer be told apart.
            '\u{c0}'..='\u{24f}' => word.push_str(&any_ascii_char(*c).to_ascii_lowercase()),
            c => word.extend(c.to_lowercase()),
        }
    }
    if !is_stop_word(word) {
        stem(word);
    }
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
