use serde::Deserialize;

use super::*;
use crate::name::is_wire_name_for_provider;

#[derive(Deserialize)]
struct Vectors {
    build_function_call_tool_name_legacy: Vec<LegacyRow>,
    fnv1a32_base36_server_hash: Vec<DigitsRow>,
    parse_function_call_tool_name: Vec<PartsRow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyRow {
    server_name: String,
    tool_name: String,
    output: String,
}

#[derive(Deserialize)]
struct DigitsRow {
    input: String,
    output: String,
}

#[derive(Deserialize)]
struct PartsRow {
    input: Option<String>,
    output: Option<Parts>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parts {
    server_part: String,
    tool_part: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../../tests/vectors/legacy_names.json"))
        .expect("the vectors are JSON")
}

#[test]
fn legacy_names_agree_with_every_golden_row() {
    let rows = vectors().build_function_call_tool_name_legacy;
    assert_eq!(rows.len(), 44);
    for row in rows {
        let made = legacy_name(&row.server_name, &row.tool_name);
        assert_eq!(made, row.output, "{} {}", row.server_name, row.tool_name);
        assert!(is_wire_name_for_provider(&made), "{made}");
    }
}

#[test]
fn the_digits_of_a_server_agree_with_every_golden_row() {
    let rows = vectors().fnv1a32_base36_server_hash;
    assert_eq!(rows.len(), 10);
    for row in rows {
        assert_eq!(server_digits(&row.input), row.output, "{}", row.input);
    }
}

#[test]
fn the_parts_of_a_legacy_name_agree_with_every_golden_row() {
    let rows = vectors().parse_function_call_tool_name;
    assert_eq!(rows.len(), 15);
    for row in rows {
        // A row without a text has no counterpart here.
        let Some(input) = row.input else { continue };
        let expected = row.output.as_ref().map(|parts| (&*parts.server_part, &*parts.tool_part));
        assert_eq!(legacy_parts(&input), expected, "{input}");
    }
}
