//! A card that is opened with what there is to see of its tool.

use pilothouse_messages::approval::{ApprovalEvent, Card, ToolFace};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{ApprovalId, TenantId, TopicId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::time::Timestamp;
use pilothouse_messages::tool::Effect;

use super::{call, mcp_source};

pub(crate) fn events(at: Timestamp) -> Vec<ApprovalEvent> {
    let topic = TopicId::new("topic-7").unwrap();
    let card = Card {
        approval: ApprovalId::of(&topic, call(2)),
        tenant: TenantId::new("acme").unwrap(),
        topic,
        call: call(2),
        tool: "mcp__files__write_0123456789abcdef0123".into(),
        source: mcp_source(),
        label: "Files".into(),
        title: None,
        effect: Effect::Edits,
        arguments: JsonText::parse(r#"{"path":"a.txt"}"#).unwrap(),
        fingerprint: Digest([0x11; 32]),
        definition: Digest([0x22; 32]),
        reason: "it changes things".into(),
        expires_at: Timestamp(1_800_086_400_000),
    };
    let bare = ToolFace {
        fingerprint: card.fingerprint,
        definition: card.definition,
        effect: Effect::Edits,
        title: None,
        description: None,
        input_schema: r#"{"type":"object"}"#.into(),
        output_schema: None,
        annotations: None,
    };
    let full = ToolFace {
        title: Some("Write a file".into()),
        description: Some("Writes.".into()),
        output_schema: Some(r#"{"type":"object"}"#.into()),
        annotations: Some(r#"{"readOnlyHint":false}"#.into()),
        ..bare.clone()
    };
    [bare, full].map(|face| ApprovalEvent::OpenedShowing { card: card.clone(), face, at }).into()
}
