//! Decides whether one path is at or below another, from their text alone.

use pilothouse_messages::grant::PathCase;

/// A path's components; the first one of an absolute path is empty, which no other component is.
///
/// `None` for a text that is no path that can be judged: an empty one, one that leaves its beginning, one with a
/// backslash (a separator to some tools and a letter to others) or with a control character.
pub(super) fn components(path: &str) -> Option<Vec<&str>> {
    if path.is_empty() || path.chars().any(|letter| letter == '\\' || letter.is_control()) {
        return None;
    }
    let absolute = path.starts_with('/');
    let mut kept = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            // Above the root is the root; above a relative beginning is somewhere unknown.
            ".." if kept.pop().is_some() || absolute => {}
            ".." => return None,
            part => kept.push(part),
        }
    }
    // A tool with a shell's habits reads a leading `~` as somebody's home.
    if !absolute && kept.first().is_some_and(|first| first.starts_with('~')) {
        return None;
    }
    if absolute {
        kept.insert(0, "");
    }
    Some(kept)
}

/// Whether the path is the directory or lies below it.
pub(super) fn is_under(path: &str, directory: &str, case: PathCase) -> bool {
    let (Some(path), Some(directory)) = (components(path), components(directory)) else { return false };
    // A relative path is below a relative directory only; the current one ("") holds every relative path.
    if path.first().is_some_and(|part| part.is_empty())
        != directory.first().is_some_and(|part| part.is_empty())
    {
        return false;
    }
    let same = |a: &str, b: &str| match case {
        PathCase::Sensitive => a == b,
        PathCase::Insensitive => a.to_lowercase() == b.to_lowercase(),
    };
    path.len() >= directory.len() && directory.iter().zip(&path).all(|(a, b)| same(a, b))
}
