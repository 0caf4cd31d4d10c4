use super::*;

/// Counted by OpenAI's own `tiktoken` 0.14 with the ranks that its digest names; the first three of them stand in OpenAI's
/// cookbook, "How to count tokens with tiktoken".
const COUNTED: [(&str, u64); 13] = [
    ("antidisestablishmentarianism", 6),
    ("2 + 2 = 4", 7),
    ("お誕生日おめでとう", 8),
    ("", 0),
    ("hello world", 2),
    ("tiktoken is great!", 6),
    ("<|endoftext|>", 7),
    ("北京市的天气怎么样？", 5),
    (
        r#"{"type":"object","properties":{"path":{"type":"string","description":"The file's path."}},"required":["path"]}"#,
        27,
    ),
    ("Creates a pull request in a repository.", 8),
    ("mcp__mysql__searchIssues_306d76332fabbe783838", 16),
    ("   \n\n\tindented", 4),
    ("naïve café — “quoted” … 🦀", 12),
];

#[test]
fn tokens_are_counted_offline_as_the_models_of_the_ranks_count_them() {
    let counter = ExactTokens::o200k().expect("the ranks are part of the program");
    for (text, expected) in COUNTED {
        assert_eq!(counter.count(text), expected, "{text}");
    }
}

#[test]
fn a_text_without_end_is_counted_exactly_to_a_bound_and_reckoned_behind_it() {
    let counter = ExactTokens::o200k().expect("the ranks are part of the program");
    let head = "word ".repeat(EXACT_BYTES / 5);
    let head = format!("{head}{}", "é".repeat((EXACT_BYTES - head.len()) / 2 + 1));
    let within = counter.count(head.get(..EXACT_BYTES - 1).or(head.get(..EXACT_BYTES)).expect("a boundary"));
    let long = format!("{head}{}", "é".repeat(8 << 20));
    let rest = counter.count(&long) - within;
    assert!((4 << 20..(4 << 20) + 2).contains(&rest), "{rest}");
}
