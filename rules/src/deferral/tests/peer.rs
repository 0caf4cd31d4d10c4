//! Two estimators of another host, to run its golden rows.

use std::collections::BTreeMap;

use pilothouse_messages::tool::ShownTool;
use serde_json::{Value, json};

use crate::tokens::TokenCounter;

type Told = BTreeMap<String, Option<String>>;

/// tokenx 1.2.1 over the JSON of name, description and schema.
pub(super) struct Tokenx {
    pub(super) told: Told,
}

impl TokenCounter for Tokenx {
    fn name(&self) -> &str {
        "tokenx@1.2.1"
    }

    fn tokens(&self, tools: &mut dyn Iterator<Item = &ShownTool>) -> u64 {
        tools.map(|tool| tokenx(&self.serialised(tool))).sum()
    }
}

impl Tokenx {
    fn serialised(&self, tool: &ShownTool) -> String {
        let description = self.told.get(&tool.name).and_then(Option::as_ref);
        let description = description.map(|text| format!(",\"description\":{}", json!(text)));
        let schema = Some(tool.input_schema.value()).filter(|schema| *schema != Value::Null);
        let schema = schema.map(|_| format!(",\"schema\":{}", tool.input_schema));
        format!(
            "{{\"name\":{}{}{}}}",
            json!(tool.name),
            description.unwrap_or_default(),
            schema.unwrap_or_default()
        )
    }
}

/// UTF-16 units of name, description and schema, by four, rounded up over the sum.
pub(super) struct CharsBy4 {
    pub(super) told: Told,
}

impl TokenCounter for CharsBy4 {
    fn name(&self) -> &str {
        "utf16-units/4@1"
    }

    fn tokens(&self, tools: &mut dyn Iterator<Item = &ShownTool>) -> u64 {
        let description = |tool: &ShownTool| {
            self.told.get(&tool.name).and_then(Option::as_ref).map_or(0, |text| units(text))
        };
        let schema = |tool: &ShownTool| match tool.input_schema.as_str() {
            "null" => 0,
            text => units(text),
        };
        let one = |tool: &ShownTool| units(&tool.name) + description(tool) + schema(tool);
        tools.map(one).sum::<u64>().div_ceil(4)
    }
}

fn units(text: &str) -> u64 {
    text.encode_utf16().count() as u64
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Blank,
    Mark,
    Word,
}

fn kind(c: char) -> Kind {
    if c.is_whitespace() || c == '\u{feff}' {
        Kind::Blank
    } else if ".,!?;(){}[]<>:/\\|@#$%^&*+=`~_-".contains(c) {
        Kind::Mark
    } else {
        Kind::Word
    }
}

/// What tokenx 1.2.1 counts for a text.
pub(super) fn tokenx(text: &str) -> u64 {
    let chars: Vec<char> = text.chars().collect();
    let mut total = 0;
    for piece in chars.chunk_by(|a, b| kind(*a) == kind(*b)) {
        total += piece_tokens(piece);
    }
    total
}

fn piece_tokens(piece: &[char]) -> u64 {
    let units: u64 = piece.iter().map(|c| c.len_utf16() as u64).sum();
    let points = piece.len() as u64;
    let kind = kind(piece[0]);
    if kind == Kind::Blank {
        0
    } else if piece.iter().any(|c| is_east_asian(*c)) {
        points
    } else if piece.iter().all(char::is_ascii_digit) || units <= 3 {
        1
    } else if kind == Kind::Mark {
        units.div_ceil(2)
    } else if piece.iter().all(|c| c.is_ascii_alphanumeric() || is_latin_1_letter(*c)) {
        let by = |ratio: f64| (units as f64 / ratio).ceil() as u64;
        let has = |letters: &str| {
            piece.iter().any(|c| letters.contains(c.to_ascii_lowercase()) || letters.contains(*c))
        };
        if has("äöüßẞÄÖÜ") || has("éèêëàâîïôûùüÿçœæáíóúñÉÈÊËÀÂÎÏÔÛÙÜŸÇŒÆÁÍÓÚÑ")
        {
            by(3.0)
        } else if has("ąćęłńóśźżěščřžýůúďťňĄĆĘŁŃÓŚŹŻĚŠČŘŽÝŮÚĎŤŇ") {
            by(3.5)
        } else {
            by(6.0)
        }
    } else {
        points
    }
}

fn is_latin_1_letter(c: char) -> bool {
    matches!(c, '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{ff}')
}

fn is_east_asian(c: char) -> bool {
    matches!(c, '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' | '\u{3000}'..='\u{303f}' | '\u{ff00}'..='\u{ffef}'
        | '\u{30a0}'..='\u{30ff}' | '\u{2e80}'..='\u{2eff}' | '\u{31c0}'..='\u{31ef}' | '\u{3200}'..='\u{33ff}'
        | '\u{ac00}'..='\u{d7af}' | '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{a960}'..='\u{a97f}'
        | '\u{d7b0}'..='\u{d7ff}')
}
