use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Vectors {
    camel_case: Vec<CamelRow>,
    wire_slug: Vec<SlugRow>,
    build_mcp_tool_wire_id: Vec<WireRow>,
}

#[derive(Deserialize)]
struct CamelRow {
    input: String,
    output: String,
}

#[derive(Deserialize)]
struct SlugRow {
    input: String,
    slug: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireRow {
    server_id: String,
    server_name: String,
    tool_name: String,
    #[serde(rename = "wire_id")]
    wire_id: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../tests/vectors/names.json")).expect("the vectors are JSON")
}

fn has_han(text: &str) -> bool {
    text.chars()
        .any(|c| reading(c).is_some() || matches!(c, '\u{3200}'..='\u{33ff}' | '\u{20000}'..='\u{3ffff}'))
}

fn is_wire_name(name: &str) -> bool {
    name.starts_with("mcp__") && name.len() <= WIRE_NAME_MAX && is_wire_name_for_provider(name)
}

fn digest_of(name: &str) -> &str {
    name.rsplit('_').next().unwrap_or_default()
}

#[test]
fn camel_case_agrees_with_every_golden_row() {
    let rows = vectors().camel_case;
    assert_eq!(rows.len(), 97);
    let wrong: Vec<_> =
        rows.iter().filter(|row| camel(&row.input) != row.output).map(|row| &row.input).collect();
    assert_eq!(wrong, Vec::<&String>::new());
}

#[test]
fn slugs_agree_wherever_nothing_is_romanised_and_are_empty_exactly_where_the_golden_ones_are() {
    let rows = vectors().wire_slug;
    assert_eq!(rows.len(), 51);
    for row in &rows {
        let made = slug(&row.input);
        assert!(made.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()), "{made}");
        if has_han(&row.input) {
            assert!(
                row.input == "\u{3280}" || made.is_empty() == row.slug.is_empty(),
                "{}",
                row.input.escape_unicode()
            );
        } else {
            assert_eq!(made, row.slug);
        }
    }
}

#[test]
fn each_han_character_is_read_as_a_word_of_its_own() {
    let rows = [
        ("票据 OCR", "piaoJuOcr"),
        ("识别发票", "shiBieFaPiao"),
        ("mysql_报销", "mysqlBaoXiao"),
        ("12306火车票", "_12306HuoChePiao"),
        ("A股行情", "aGuXingQing"),
        ("東京タワー", "dongJing"),
    ];
    for (text, expected) in rows {
        assert_eq!(slug(text), expected);
    }
}

#[test]
fn wire_names_agree_with_every_golden_row_and_romanised_ones_in_all_but_the_readable_part() {
    let rows = vectors().build_mcp_tool_wire_id;
    assert_eq!(rows.len(), 79);
    for row in &rows {
        let made = wire_name(&row.server_id, &row.server_name, &row.tool_name);
        assert!(is_wire_name(&made), "{made}");
        if has_han(&row.server_name) || has_han(&row.tool_name) {
            assert_eq!(digest_of(&made), digest_of(&row.wire_id));
        } else {
            assert_eq!(made, row.wire_id);
        }
    }
}

#[test]
fn a_renamed_server_changes_the_readable_part_only() {
    let before = wire_name("server-a", "mysql", "query");
    let after = wire_name("server-a", "Billing DB", "query");
    assert_eq!(after, "mcp__billingDb__query_306d76332fabbe783838");
    assert_eq!(digest_of(&before), digest_of(&after));
}

#[test]
fn a_number_makes_another_name_of_at_most_the_same_length() {
    let rows = [
        ("mysql", "query", 2, "mcp__mysql__query_306d76332fabbe783838_2"),
        ("mysql", "query", 1_000, "mcp__mysql__query_306d76332fabbe783838_1000"),
    ];
    for (server, tool, number, expected) in rows {
        assert_eq!(numbered_wire_name("server-a", server, tool, number), expected);
    }
    let long = numbered_wire_name("server-a", &"s".repeat(200), &"t".repeat(200), usize::MAX);
    assert!(is_wire_name(&long), "{long}");
}

#[test]
fn a_provider_accepts_one_to_sixty_four_plain_characters() {
    let fits = "a".repeat(64);
    let long = "a".repeat(65);
    let rows = [
        ("a", true),
        ("A-b_9", true),
        (fits.as_str(), true),
        ("", false),
        (long.as_str(), false),
        ("a.b", false),
        ("a b", false),
        ("ä", false),
        ("a\n", false),
    ];
    for (name, expected) in rows {
        assert_eq!(is_wire_name_for_provider(name), expected, "{name:?}");
    }
}

#[test]
fn blanks_are_those_of_ecmascript() {
    let rows = [
        ("\u{feff}x", "x"),
        ("\u{3000}x\u{2028}", "x"),
        ("\u{85}x", "X"),
        ("\u{b}x\u{c}", "x"),
        ("\u{180e}x", "X"),
    ];
    for (text, expected) in rows {
        assert_eq!(camel(text), expected, "{text:?}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 64, ..Default::default() })]

    #[test]
    fn any_three_texts_make_a_name_that_every_provider_accepts(id in ".*", server in ".*", tool in ".*", number: usize) {
        assert!(is_wire_name(&wire_name(&id, &server, &tool)));
        assert!(is_wire_name(&numbered_wire_name(&id, &server, &tool, number)));
    }
}
