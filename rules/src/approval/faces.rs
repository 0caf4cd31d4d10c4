//! Decides what a card shows of a tool that has changed: both sides, the old one being what a person last allowed a call
//! of, or, as long as nobody has, what a person was last asked about.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_messages::approval::{Card, SeenAs, ToolChange, ToolFace};
use pilothouse_messages::digest::Digest;
use pilothouse_messages::id::{ApprovalId, TenantId};
use pilothouse_messages::tool::{Effect, ToolDefinition, ToolSource};

use super::Ledger;
use crate::cut::TITLE_BYTES;
use crate::schema::text::is_unseen;

/// How much of a description is shown.
const DESCRIPTION_BYTES: usize = 4 << 10;
/// How much of a schema is shown.
const SCHEMA_BYTES: usize = 8 << 10;

/// What a person is shown of this tool of this owner (fingerprint of the server's definition).
pub fn face(definition: &ToolDefinition, owner: Digest, effect: Effect) -> ToolFace {
    let text = |text: &Option<String>, bytes| text.as_deref().map(|text| visible(text, bytes));
    ToolFace {
        fingerprint: definition.fingerprint(),
        definition: owner,
        effect,
        title: text(&definition.title, TITLE_BYTES),
        description: text(&definition.description, DESCRIPTION_BYTES),
        input_schema: visible(definition.input_schema.as_str(), SCHEMA_BYTES),
        output_schema: definition.output_schema.as_ref().map(|schema| visible(schema.as_str(), SCHEMA_BYTES)),
        annotations: definition.annotations.as_ref().map(|hints| visible(hints.as_str(), TITLE_BYTES)),
    }
}

/// The text with what a reader would not see written out (line breaks and tabs stay), at most so many bytes and a mark.
fn visible(text: &str, bytes: usize) -> String {
    let mut out = String::with_capacity(text.len().min(bytes));
    for c in text.chars() {
        let from = out.len();
        match c {
            '\n' | '\t' => out.push(c),
            c if is_unseen(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
        if out.len() > bytes {
            out.truncate(from);
            out.push('…');
            break;
        }
    }
    out
}

type Tool = (TenantId, ToolSource);

/// What people were shown of tools.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Faces {
    known: BTreeMap<Tool, Known>,
    /// What the open cards show, as it stood when they were made.
    open: BTreeMap<ApprovalId, Shown>,
}

/// What the people of one tenant know of one tool.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    /// As somebody last allowed a call of it.
    allowed: Option<Arc<ToolFace>>,
    /// As it was last shown.
    shown: Arc<ToolFace>,
    /// As it was shown before that.
    before: Option<Arc<ToolFace>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Shown {
    tool: Tool,
    face: Arc<ToolFace>,
    change: Option<Arc<ToolChange>>,
}

impl Known {
    fn change(&self) -> Option<ToolChange> {
        let allowed = self.allowed.as_ref().map(|face| (face, SeenAs::Allowed));
        let (old, seen) = allowed.or_else(|| self.before.as_ref().map(|face| (face, SeenAs::Asked)))?;
        let changed = !old.is_of_same(&self.shown);
        changed.then(|| ToolChange { seen, old: (**old).clone(), new: (*self.shown).clone() })
    }
}

fn tool_of(card: &Card) -> Tool {
    (card.tenant.clone(), card.source.clone())
}

fn fits(card: &Card, face: &ToolFace) -> bool {
    (face.fingerprint, face.definition) == (card.fingerprint, card.definition)
}

impl Faces {
    /// Whether people have not been shown the card's tool as it is now; a face of something else is none.
    pub(super) fn is_news(&self, card: &Card, face: &ToolFace) -> bool {
        let known = self.known.get(&tool_of(card));
        fits(card, face) && known.is_none_or(|known| !known.shown.is_of_same(face))
    }

    pub(super) fn show(&mut self, card: &Card, face: &ToolFace) {
        let face = Arc::new(face.clone());
        match self.known.get_mut(&tool_of(card)) {
            Some(known) => known.before = Some(std::mem::replace(&mut known.shown, face)),
            None => {
                let known = Known { allowed: None, shown: face, before: None };
                self.known.insert(tool_of(card), known);
            }
        }
    }

    pub(super) fn open(&mut self, card: &Card) {
        let tool = tool_of(card);
        let Some(known) = self.known.get(&tool).filter(|known| fits(card, &known.shown)) else { return };
        let (face, change) = (known.shown.clone(), known.change().map(Arc::new));
        self.open.entry(card.approval).or_insert(Shown { tool, face, change });
    }

    pub(super) fn allow(&mut self, approval: ApprovalId) {
        if let Some(shown) = self.open.get(&approval)
            && let Some(known) = self.known.get_mut(&shown.tool)
        {
            known.allowed = Some(shown.face.clone());
        }
    }

    pub(super) fn close(&mut self, approval: ApprovalId) {
        self.open.remove(&approval);
    }
}

impl Ledger {
    /// What has changed about an open card's tool since a person has seen it; `None` if nothing has, or nobody had.
    pub fn change_of(&self, approval: ApprovalId) -> Option<&Arc<ToolChange>> {
        self.faces.open.get(&approval)?.change.as_ref()
    }
}
