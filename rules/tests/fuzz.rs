//! The fuzz targets on some of what a fuzzer has found worth keeping (`fuzz/corpus/`), on real catalogs, and on some thousand
//! mutations of both, drawn from a seed: what a short run of a fuzzer would find is found by every run of the tests. The
//! workspace `fuzz/` has the same targets for a long one.

use std::path::Path;

use serde_json::Value;

#[path = "fuzz/targets.rs"]
mod targets;

/// Mutations of each target; a run of a few seconds.
const MUTATIONS: usize = 2_000;
/// Longer inputs are left to the fuzzer itself.
const BYTES_MAX: usize = 16 << 10;

/// A generator of no quality but speed and repeatability (xorshift64*).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0) % bound.max(1)
    }
}

/// Words that schemas, names and arguments trip over.
const WORDS: [&str; 24] = [
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "\0",
    "\u{feff}",
    "\u{202e}",
    "$ref",
    "#/$defs/a",
    "#",
    "anyOf",
    "allOf",
    "enum",
    "const",
    "type",
    "\"type\":",
    "[\"object\",\"null\"]",
    "1e999",
    "-0",
    "\\u0000",
    "```",
    ",}",
    "查询",
];

/// Another input made from one: some bytes are flipped, taken out, doubled, or replaced by a word of trouble, or its
/// JSON has a value replaced by another one of its own.
fn mutated(seed: &[u8], draw: &mut Draw) -> Vec<u8> {
    if draw.below(3) == 0
        && let Ok(mut value) = serde_json::from_slice::<Value>(seed)
    {
        let other = value.clone();
        let part = draw.below(64);
        let replacement = nth(&other, &mut draw.below(64)).cloned().unwrap_or(Value::Null);
        replace(&mut value, &mut { part }, &replacement);
        return value.to_string().into_bytes();
    }
    let mut bytes = seed.to_vec();
    for _ in 0..=draw.below(4) {
        let at = draw.below(bytes.len() + 1);
        match draw.below(4) {
            0 if at < bytes.len() => bytes[at] ^= 1 << draw.below(8),
            1 => {
                let end = (at + draw.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
            2 => {
                let end = (at + draw.below(64)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let word = WORDS[draw.below(WORDS.len())];
                bytes.splice(at..at, word.bytes());
            }
        }
    }
    bytes
}

/// The value with this number, counted from the root down.
fn nth<'a>(value: &'a Value, left: &mut usize) -> Option<&'a Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter().find_map(|item| nth(item, left)),
        Value::Object(fields) => fields.values().find_map(|item| nth(item, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn replace(value: &mut Value, left: &mut usize, by: &Value) -> bool {
    if *left == 0 {
        *value = by.clone();
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| replace(item, left, by)),
        Value::Object(fields) => fields.values_mut().any(|item| replace(item, left, by)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The tools of all catalogs, as they were listed.
fn tools() -> Vec<Value> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/catalogs/data");
    let mut files: Vec<_> =
        std::fs::read_dir(data).expect("the catalogs").map(|file| file.expect("a file").path()).collect();
    files.sort();
    let parsed = files.iter().map(|file| {
        let text = std::fs::read_to_string(file).expect("a text");
        serde_json::from_str::<Value>(&text).expect("JSON")
    });
    parsed
        .flat_map(|mut catalog| catalog["tools"].as_array_mut().map(std::mem::take).unwrap_or_default())
        .collect()
}

/// Of what a fuzzer has kept for this target because it reached something new: some short inputs.
#[expect(
    clippy::disallowed_methods,
    reason = "a test reads its corpus; the rule that it tries reaches nothing"
)]
fn kept(what: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(what);
    let mut files: Vec<_> =
        std::fs::read_dir(directory).expect("the corpus").map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() > 20, "a corpus is kept for {what}");
    files.iter().map(|file| std::fs::read(file).expect("a file")).collect()
}

/// Runs the target on what was kept and on the listed inputs, then on mutations of both; a failure names its input.
fn check(what: &str, listed: Vec<Vec<u8>>, target: fn(&[u8])) {
    let kept = kept(what);
    let mut corpus: Vec<_> = listed.into_iter().filter(|seed| seed.len() <= BYTES_MAX).collect();
    assert!(corpus.len() > 100, "there is a corpus for {what}");
    let mut draw = Draw(0x9E37_79B9_7F4A_7C15);
    let run = |input: &[u8]| {
        let ended = std::panic::catch_unwind(|| target(input));
        assert!(ended.is_ok(), "{what} fails on {:?}", String::from_utf8_lossy(input));
    };
    for seed in kept.iter().chain(corpus.iter().step_by(7)) {
        run(seed);
    }
    corpus.extend(kept);
    for _ in 0..MUTATIONS {
        let seed = &corpus[draw.below(corpus.len())];
        run(&mutated(seed, &mut draw));
    }
}

fn joined(parts: &[&str]) -> Vec<u8> {
    parts.join("\0").into_bytes()
}

fn name_of(tool: &Value) -> &str {
    tool["name"].as_str().unwrap_or_default()
}

#[test]
fn any_texts_have_a_name_that_every_provider_takes() {
    let corpus = tools().iter().map(|tool| joined(&["server", "A Server", name_of(tool)])).collect();
    check("names", corpus, targets::names);
}

#[test]
fn any_json_is_shown_as_a_schema_that_its_provider_takes() {
    let corpus = tools().iter().map(|tool| tool["inputSchema"].to_string().into_bytes()).collect();
    check("schema", corpus, targets::schema);
}

#[test]
fn any_tool_has_a_bounded_signature() {
    let corpus = tools().iter().map(|tool| tool.to_string().into_bytes()).collect();
    check("signature", corpus, targets::signature);
}

#[test]
fn any_text_is_arguments_that_fit_or_a_refusal_in_bounded_words() {
    let texts =
        ["{}", "", "null", r#"{"q":"a"}"#, r#""{\"q\":1}""#, r#"{"arguments":{"q":"a",}}"#, "```\n{}\n```"];
    let tools = tools();
    let pairs = tools.iter().zip(texts.iter().cycle());
    let corpus = pairs.map(|(tool, text)| joined(&[&tool["inputSchema"].to_string(), text])).collect();
    check("arguments", corpus, targets::arguments);
}
