//! Decides how truth values, texts and numbers are said in a dialect.

use serde_json::{Value, json};

use super::{Said, Shower, Vocabulary, bound, one_of, typed, values};
use crate::schema::shape::{NumberKind, Numeral, Text};

impl Shower<'_> {
    /// Says it if the dialect has the word, else leaves a remark.
    fn remark(&mut self, word: &str, hint: String, hints: &mut Vec<String>) {
        self.lose(&format!("`{word}` is a remark"));
        hints.push(hint);
    }

    pub(super) fn flag(&mut self, only: Option<bool>) -> Said {
        let mut keywords = typed("boolean");
        let mut hints = Vec::new();
        match only {
            Some(only) if self.dialect.is_json_schema() => {
                keywords.insert("enum".to_owned(), json!([only]));
            }
            Some(only) => self.remark("const", format!("always {only}"), &mut hints),
            None => {}
        }
        Said { keywords, hints }
    }

    pub(super) fn text(&mut self, text: &Text) -> Said {
        let mut keywords = typed("string");
        let mut hints = Vec::new();
        if let Some(all) = &text.values {
            // Gemini takes no empty value.
            let is_sayable = self.dialect.is_json_schema() || !all.iter().any(String::is_empty);
            match values(text.values.as_ref()).filter(|_| is_sayable) {
                Some(shown) => {
                    keywords.insert("enum".to_owned(), Value::Array(shown));
                }
                None => self.remark("enum", one_of(all), &mut hints),
            }
        }
        if let Some(format) = &text.format {
            if self.dialect.takes_format(format) {
                keywords.insert("format".to_owned(), json!(format));
            } else {
                self.remark("format", format!("format: {format}"), &mut hints);
            }
        }
        if let Some(pattern) = &text.pattern {
            // Strict mode knows no look-around and no back-references.
            let refers =
                pattern.split('\\').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            let is_plain = !pattern.contains("(?") && !refers;
            if is_plain || !self.dialect.is_strict() {
                keywords.insert("pattern".to_owned(), json!(pattern));
            } else {
                self.remark("pattern", format!("pattern: {pattern}"), &mut hints);
            }
        }
        for (word, words, number) in
            [("minLength", "at least", &text.min), ("maxLength", "at most", &text.max)]
        {
            match number {
                Some(number) if self.dialect.is_strict() => {
                    self.remark(word, format!("{words} {number} characters"), &mut hints);
                }
                number => bound(&mut keywords, word, number.as_ref()),
            }
        }
        Said { keywords, hints }
    }

    pub(super) fn numeral(&mut self, numeral: &Numeral) -> Said {
        let mut keywords = typed(match numeral.kind {
            NumberKind::Integer => "integer",
            NumberKind::Real => "number",
        });
        let mut hints = Vec::new();
        let (mut min, mut max) = (numeral.min.as_ref(), numeral.max.as_ref());
        if let Some(all) = &numeral.values {
            match values(numeral.values.as_ref()).filter(|_| self.dialect.is_json_schema()) {
                Some(shown) => {
                    keywords.insert("enum".to_owned(), Value::Array(shown));
                }
                None => self.remark("enum", one_of(all), &mut hints),
            }
        }
        if self.dialect.is_json_schema() {
            bound(&mut keywords, "exclusiveMinimum", numeral.above.as_ref());
            bound(&mut keywords, "exclusiveMaximum", numeral.below.as_ref());
            bound(&mut keywords, "multipleOf", numeral.multiple_of.as_ref());
        } else {
            if let Some(above) = &numeral.above {
                self.remark("exclusiveMinimum", format!("more than {above}"), &mut hints);
                min = min.or(Some(above));
            }
            if let Some(below) = &numeral.below {
                self.remark("exclusiveMaximum", format!("less than {below}"), &mut hints);
                max = max.or(Some(below));
            }
            if let Some(step) = &numeral.multiple_of {
                self.remark("multipleOf", format!("a multiple of {step}"), &mut hints);
            }
        }
        bound(&mut keywords, "minimum", min);
        bound(&mut keywords, "maximum", max);
        Said { keywords, hints }
    }
}
