use super::*;

#[test]
fn tokens_are_counted_offline_as_the_models_of_the_ranks_count_them() {
    let counter = ExactTokens::o200k().expect("the ranks are part of the program");
    let rows = [("", 0), ("hello world", 2), ("tiktoken is great!", 6), ("<|endoftext|>", 7)];
    for (text, expected) in rows {
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
