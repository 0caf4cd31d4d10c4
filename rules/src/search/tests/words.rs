//! Which words find a tool.

use super::*;

#[test]
fn a_tool_is_found_by_each_part_of_what_is_said_about_it() {
    let schema = json!({"type": "object", "properties": {
        "recipient_address": {"type": "string", "description": "Whom to reach"},
        "priority": {"enum": ["urgent", "lowKey", 3]},
        "parts": {"type": "array", "items": {"properties": {"attachmentName": {"const": "invoice"}}}},
        "either": {"anyOf": [{"properties": {"carbonCopy": true}}, {"$ref": "#/$defs/x"}]},
    }, "$defs": {"x": {"properties": {"signature": {}}}}});
    let definition = ToolDefinition {
        title: Some("Dispatch a Letter".into()),
        description: Some("Sends mail. Works at night.".into()),
        ..with_schema("postMessageHTMLBody", &schema)
    };
    let index = index_of(vec![definition, described("other", "unlike")]);
    let texts = [
        "post",
        "message",
        "html",
        "bodies",
        "postmessagehtmlbody",
        "dispatching",
        "letters",
        "mails",
        "night",
        "recipient",
        "addresses",
        "reaching",
        "urgent",
        "key",
        "attachment",
        "invoices",
        "carbon",
        "signature",
        "ＰＯＳＴ",
        "s",
    ];
    for text in texts {
        let mut names = found(&index, text);
        // The label is both tools'.
        names.retain(|name| name != "other");
        assert_eq!(names, ["postMessageHTMLBody"], "{text}");
    }
    for text in ["unmentioned", "#/$defs", "type", "string"] {
        assert_eq!(found(&index, text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn a_word_in_the_name_outweighs_one_in_the_description_and_that_one_in_an_explanation() {
    let explained = json!({"type": "object", "properties": {"q": {"description": "the invoice"}}});
    let index = index_of(vec![
        with_schema("a", &explained),
        described("b", "Reads a text. It may be an invoice."),
        described("c", "Reads an invoice."),
        described("read_invoice", "Reads."),
    ]);
    assert_eq!(found(&index, "invoice"), ["read_invoice", "c", "b", "a"]);
}

#[test]
fn texts_without_blanks_between_words_are_found_by_parts_of_them() {
    let index = index_of(vec![
        described("ocr", "识别票据中的结构化字段"),
        described("weather", "查询天气预报"),
        described("mieru", "請求書を読み取るサービスです"),
        described("jido", "カレンダーに予定を追加する"),
        described("nalssi", "날씨를 알려줍니다"),
    ]);
    let rows: [(&str, &[&str]); 10] = [
        ("票据", &["ocr"]),
        ("识别发票据", &["ocr"]),
        ("天气", &["weather"]),
        ("天", &["weather"]),
        ("請求書", &["mieru"]),
        ("カレンダー", &["jido"]),
        ("予定追加", &["jido"]),
        ("날씨", &["nalssi"]),
        ("날씨 weather", &["weather", "nalssi"]),
        ("汽车", &[]),
    ];
    for (text, expected) in rows {
        assert_eq!(found(&index, text), expected, "{text}");
    }
}

#[test]
fn words_of_one_stem_are_one_term() {
    let rows: [&[&str]; 12] = [
        &["merge", "merges", "merged", "merging", "merger"],
        &["calculate", "calculator", "calculation", "calculating"],
        &["query", "queries"],
        &["scan", "scans", "scanned", "scanning", "scanner"],
        &["search", "searches", "searching"],
        &["create", "created", "creation", "creating"],
        &["convert", "converter", "converted", "converts"],
        &["file", "files"],
        &["box", "boxes"],
        &["call", "calls", "calling", "caller"],
        &["address", "addresses"],
        &["monitor", "monitors", "monitoring"],
    ];
    let stemmed = |word: &str| {
        let mut word = word.to_owned();
        stem::stem(&mut word);
        word
    };
    for row in rows {
        let stems: BTreeSet<_> = row.iter().map(|word| stemmed(word)).collect();
        assert_eq!(stems.len(), 1, "{stems:?}");
    }
    for word in ["is", "bus", "class", "user", "action", "station", "äpfel", "s3", "日本", ""] {
        assert_eq!(stemmed(word), word);
    }
}

#[test]
fn words_that_tell_nothing_count_only_where_there_are_no_others() {
    let index = index_of(vec![described("a", "is it the one"), described("b", "the invoice")]);
    assert_eq!(found(&index, "is the invoice"), ["b"]);
    assert_eq!(found(&index, "is it"), ["a"]);
}

#[test]
fn an_accent_finds_its_letter_and_the_other_way_round() {
    let index = index_of(vec![described("a", "café Überweisung"), described("b", "naive")]);
    assert_eq!((found(&index, "cafe"), found(&index, "uberweisung")), (vec!["a".into()], vec!["a".into()]));
    assert_eq!(found(&index, "naïve"), ["b"]);
}

#[test]
fn a_word_finds_what_is_called_by_another_one_for_it_behind_the_word_itself() {
    let index = index_of(vec![
        described("remove_folder", "Works on a path"),
        described("delete_folder", "Works on a path"),
        described("delete_note", "Works on a text"),
    ]);
    let rows: [(&str, &[&str]); 5] = [
        ("notes", &["delete_note"]),
        ("list directories", &["delete_folder", "remove_folder"]),
        ("erase", &["remove_folder", "delete_folder", "delete_note"]),
        ("removing folders", &["remove_folder", "delete_folder", "delete_note"]),
        ("rename", &[]),
    ];
    for (text, expected) in rows {
        assert_eq!(found(&index, text), expected, "{text}");
    }
}

#[test]
fn a_tool_whose_name_is_said_whole_comes_before_one_of_which_a_part_is() {
    let index = index_of(vec![
        described("getStory", "One of the news"),
        described("getStoryWithComments", "One of the news"),
        described("getStoryWithPolls", "One of the news"),
    ]);
    assert_eq!(found(&index, "the story with its comments")[0], "getStoryWithComments");
    assert_eq!(found(&index, "fetch one story")[0], "getStory");
}

#[test]
fn the_lists_of_words_are_in_order_and_their_lengths_known() {
    for word in ["a", "because", "yours", "with"] {
        assert!(is_stop_word(word), "{word}");
    }
    for word in ["", "file", "search", "get", "zoom", "besides", "日本"] {
        assert!(!is_stop_word(word), "{word}");
    }
}
