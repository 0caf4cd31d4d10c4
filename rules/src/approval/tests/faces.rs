use pilothouse_messages::approval::{FacePart, SeenAs, ToolFace};
use pilothouse_messages::tool::ToolDefinition;

use super::*;
use crate::approval::face;

fn mail(description: &str) -> ToolDefinition {
    ToolDefinition {
        name: "write".to_owned(),
        title: None,
        description: Some(description.to_owned()),
        input_schema: JsonText::from(json!({"type": "object"})),
        output_schema: None,
        annotations: None,
    }
}

fn shown(description: &str) -> ToolFace {
    face(&mail(description), Digest([2; 32]), Effect::Edits)
}

/// A card for the tool as it is then.
fn asks(index: u32, face: &ToolFace) -> ApprovalCommand {
    asks_of(TenantId::default(), index, face)
}

fn asks_of(tenant: TenantId, index: u32, face: &ToolFace) -> ApprovalCommand {
    let (fingerprint, definition, effect) = (face.fingerprint, face.definition, face.effect);
    let card = Card { tenant, fingerprint, definition, effect, ..card("t", index) };
    ApprovalCommand::OpenShowing { card: Box::new(card), face: Box::new(face.clone()) }
}

/// What the card of this call shows after the history: what was seen of the tool, and what differs.
#[track_caller]
fn check(history: &[ApprovalCommand], index: u32, expected: Option<(SeenAs, &str, &str, &[FacePart])>) {
    let ledger = ledger_after(history);
    let change = ledger.change_of(id("t", index));
    let told = change.map(|change| {
        let description = |face: &ToolFace| face.description.clone().unwrap();
        (change.seen, description(&change.old), description(&change.new), change.parts())
    });
    let expected =
        expected.map(|(seen, old, new, parts)| (seen, old.to_owned(), new.to_owned(), parts.to_vec()));
    assert_eq!(told, expected, "{history:?}");
}

#[test]
fn a_card_shows_what_has_changed_since_a_person_allowed_the_tool_or_was_asked_about_it() {
    let (one, two) = (shown("Sends."), shown("Sends, and also BCC."));
    let moved = ToolFace { definition: Digest([9; 32]), ..one.clone() };
    let reads = ToolFace { effect: Effect::Reads, ..one.clone() };
    let other = TenantId::new("other").unwrap();
    let text = Some((SeenAs::Allowed, "Sends.", "Sends, and also BCC.", &[FacePart::Description][..]));
    let asked = Some((SeenAs::Asked, "Sends.", "Sends, and also BCC.", &[FacePart::Description][..]));
    for (history, index, expected) in [
        (vec![asks(0, &one)], 0, None),
        (vec![asks(0, &one), allow("t", 0), asks(1, &one)], 1, None),
        (vec![asks(0, &one), allow("t", 0), asks(1, &two)], 1, text),
        (vec![asks(0, &one), deny("t", 0), asks(1, &two)], 1, asked),
        // What was allowed counts, however often it was denied since.
        (vec![asks(0, &one), allow("t", 0), asks(1, &two), deny("t", 1), asks(2, &two)], 2, text),
        (vec![asks(0, &one), allow("t", 0), asks(1, &two), allow("t", 1), asks(2, &two)], 2, None),
        (vec![asks(0, &one), allow("t", 0), asks(1, &two), deny("t", 1), asks(2, &one)], 2, None),
        // A card that was made before the change is about the old one, also when it is decided after it.
        (vec![asks(0, &one), asks(1, &two), allow("t", 0), asks(2, &two)], 2, text),
        (
            vec![asks(0, &one), allow("t", 0), asks(1, &moved)],
            1,
            Some((SeenAs::Allowed, "Sends.", "Sends.", &[FacePart::Server][..])),
        ),
        (
            vec![asks(0, &one), allow("t", 0), asks(1, &reads)],
            1,
            Some((SeenAs::Allowed, "Sends.", "Sends.", &[FacePart::Effect][..])),
        ),
        // What another tenant's people have seen says nothing to these.
        (vec![asks_of(other, 0, &one), allow("t", 0), asks(1, &two)], 1, None),
        // Once it is decided it shows nothing more.
        (vec![asks(0, &one), allow("t", 0), asks(1, &two), allow("t", 1)], 1, None),
    ] {
        check(&history, index, expected);
    }
}

#[test]
fn the_face_of_another_tool_than_the_cards_is_not_taken() {
    let card = Box::new(card("t", 0));
    let opened = ApprovalEvent::Opened { card: (*card).clone(), at: Timestamp(50) };
    let command = ApprovalCommand::OpenShowing { card, face: Box::new(shown("Sends.")) };
    let outcome = Decision { events: vec![opened], ..Decision::answer(ApprovalAnswer::Opened) };
    super::check(&[], 50, command, Ok(outcome));
}

#[test]
fn what_a_reader_would_not_see_is_written_out_and_what_is_long_is_cut() {
    let hostile = mail("Sends\u{202e}.\u{200b}\nNext\u{1b}[2J");
    let long = ToolDefinition {
        input_schema: JsonText::from(json!({"description": "é".repeat(100_000)})),
        ..mail(&"\u{202e}".repeat(100_000))
    };
    let of = |definition: &ToolDefinition| face(definition, Digest([2; 32]), Effect::Edits);
    assert_eq!(of(&hostile).description.unwrap(), "Sends\\u{202e}.\\u{200b}\nNext\\u{1b}[2J");
    let cut = of(&long);
    let description = cut.description.unwrap();
    assert!(
        description.len() < (4 << 10) + 4 && description.ends_with("\\u{202e}…"),
        "{}",
        description.len()
    );
    assert!(cut.input_schema.len() < (8 << 10) + 4 && cut.input_schema.ends_with('…'));
}

#[test]
fn a_change_that_was_cut_is_still_told() {
    let long = |end: &str| mail(&format!("{}{end}", "x".repeat(8 << 10)));
    let titled = |definition| ToolDefinition { title: Some("Mail".to_owned()), ..definition };
    for (then, parts) in [
        (long("2"), &[FacePart::Unshown][..]),
        // What can be seen draws no attention from what cannot.
        (titled(long("2")), &[FacePart::Title, FacePart::Unshown]),
    ] {
        let [one, two] = [long("1"), then].map(|of| face(&of, Digest([2; 32]), Effect::Edits));
        let ledger = ledger_after(&[asks(0, &one), allow("t", 0), asks(1, &two)]);
        assert_eq!(ledger.change_of(id("t", 1)).unwrap().parts(), parts);
    }
}
