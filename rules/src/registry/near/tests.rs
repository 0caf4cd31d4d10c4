use super::super::sample::function;
use super::*;

fn entries(names: &[&str]) -> Vec<Arc<Entry>> {
    names.iter().map(|name| Arc::new(function(name))).collect()
}

#[test]
fn edits_are_counted_and_given_up_at_the_bound() {
    let rows = [
        ("", "", 9, 0),
        ("abc", "", 9, 3),
        ("", "abc", 9, 3),
        ("kitten", "sitting", 9, 3),
        ("flaw", "lawn", 9, 2),
        ("same", "same", 9, 0),
        ("kitten", "sitting", 3, 3),
        ("kitten", "sitting", 2, 2),
        ("abcdefgh", "x", 4, 4),
    ];
    for (from, to, bound, expected) in rows {
        let written = Written::of(from.into());
        assert_eq!(written.edits(to.as_bytes(), bound), expected, "{from} {to} {bound}");
    }
}

/// The textbook's table, row by row.
fn by_the_table(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

proptest::proptest! {
    #[test]
    fn edits_are_as_many_as_the_textbooks_table_says(
        from in proptest::collection::vec(97..101_u8, 0..=64), to in proptest::collection::vec(97..101_u8, 0..=64),
    ) {
        proptest::prop_assert_eq!(Written::of(from.clone()).edits(&to, usize::MAX), by_the_table(&from, &to));
    }
}

#[test]
fn the_nearest_three_are_told_nearest_first() {
    let known = entries(&["alpha", "beta", "delete_file", "read_file", "read_files", "write_file"]);
    let rows: [(&str, &[&str]); 5] = [
        ("Read-File", &["read_file", "read_files", "write_file"]),
        ("read", &["read_file", "read_files", "beta"]),
        ("bta", &["beta", "alpha", "read_file"]),
        ("", &["alpha", "beta", "delete_file"]),
        ("日本", &["alpha", "beta", "read_file"]),
    ];
    for (written, expected) in rows {
        assert_eq!(nearest(written, known.iter()), expected, "{written}");
    }
    assert_eq!(nearest("read", entries(&[]).iter()), Vec::<&str>::new());
}
