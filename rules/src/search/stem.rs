//! Light stemming of English: the endings that tell a tool's name from the words in which a model asks for it.

/// The shortest stem that an ending of inflection leaves, and one of derivation (`creat-ion`).
const SHORT: usize = 3;
const LONG: usize = 5;

/// Cuts plural, `-ed`, `-ing`, then the endings of agents and actions, then a final `e`; all in place.
///
/// So `merge`, `merges`, `merging` and `merger` are one term, and so are `calculate`, `calculator` and `calculation`.
/// Only ASCII letters in lower case are touched: other languages keep their words whole.
pub(super) fn stem(word: &mut String) {
    if !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return;
    }
    plural(word);
    let _is_cut = ["ing", "ed"].iter().any(|ending| inflected(word, ending));
    derived(word);
    if word.len() > SHORT && word.ends_with('e') {
        word.pop();
    }
}

fn plural(word: &mut String) {
    if word.len() > 4 && word.ends_with("ies") {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if word.ends_with("sses")
        || word.ends_with("xes")
        || word.ends_with("ches")
        || word.ends_with("shes")
    {
        word.truncate(word.len() - 2);
    } else if word.len() > SHORT
        && word.ends_with('s')
        && !["ss", "us", "is"].iter().any(|end| word.ends_with(end))
    {
        word.pop();
    }
}

/// Cuts the ending if a stem with a vowel is left, and the second of two equal consonants that it brought.
fn inflected(word: &mut String, ending: &str) -> bool {
    let Some(stem) = word.strip_suffix(ending) else { return false };
    if stem.len() < SHORT || !stem.bytes().any(is_vowel) {
        return false;
    }
    word.truncate(stem.len());
    undouble(word);
    true
}

fn derived(word: &mut String) {
    let endings =
        [("ation", LONG), ("ator", LONG), ("ate", LONG), ("ion", LONG), ("at", LONG), ("er", SHORT + 1)];
    for (ending, least) in endings {
        if word.strip_suffix(ending).is_some_and(|stem| stem.len() >= least) {
            word.truncate(word.len() - ending.len());
            undouble(word);
            return;
        }
    }
}

/// `scann` becomes `scan`; `call`, `pass` and `fizz` stay.
fn undouble(word: &mut String) {
    if let [.., a, b] = word.as_bytes()
        && a == b
        && !is_vowel(*b)
        && !matches!(b, b'l' | b's' | b'z')
    {
        word.pop();
    }
}

fn is_vowel(byte: u8) -> bool {
    matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'y')
}
