//! What a person is shown of a tool that has changed: the old definition and the new one, side by side.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::tool::Effect;

/// One tool as a person is shown it: text from outside, with what a reader would not see made visible, and cut. Stored:
/// its bytes are frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFace {
    /// Fingerprint of the tool, of all its text.
    pub fingerprint: Digest,
    /// Fingerprint of the server's definition.
    pub definition: Digest,
    /// What it may do.
    pub effect: Effect,
    /// The owner's title.
    pub title: Option<String>,
    /// What the owner says about it.
    pub description: Option<String>,
    /// JSON Schema of its arguments.
    pub input_schema: String,
    /// JSON Schema of its structured result.
    pub output_schema: Option<String>,
    /// Hints of the owner.
    pub annotations: Option<String>,
}

/// Where a person has seen the old side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SeenAs {
    /// It is what a person last allowed a call of.
    Allowed,
    /// Nobody has allowed a call of the tool yet: it is what a person was last asked about.
    Asked,
}

/// A part of a tool's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FacePart {
    /// What it may do.
    Effect,
    /// The title.
    Title,
    /// The description.
    Description,
    /// The schema of its arguments.
    InputSchema,
    /// The schema of its result.
    OutputSchema,
    /// The hints.
    Annotations,
    /// How its server is reached or started.
    Server,
    /// Something behind what was cut; told whenever that cannot be ruled out, also beside a part that can be seen.
    Unshown,
}

/// What has changed about a card's tool since a person has seen it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolChange {
    /// Where the old side was seen.
    pub seen: SeenAs,
    /// The old side.
    pub old: ToolFace,
    /// The new side: the tool as the card asks about it.
    pub new: ToolFace,
}

impl ToolFace {
    /// `true` if both are faces of one definition.
    pub fn is_of_same(&self, other: &Self) -> bool {
        (self.fingerprint, self.definition, self.effect)
            == (other.fingerprint, other.definition, other.effect)
    }

    /// `true` if a person does not see all of it.
    fn is_cut(&self) -> bool {
        let optional = [&self.title, &self.description, &self.output_schema, &self.annotations];
        let mut texts = optional.into_iter().flatten().chain([&self.input_schema]);
        texts.any(|text| text.ends_with('…'))
    }
}

impl ToolChange {
    /// The parts that differ, in the order in which they are worth reading; never empty.
    pub fn parts(&self) -> Vec<FacePart> {
        let (old, new) = (&self.old, &self.new);
        let differ = [
            (FacePart::Effect, old.effect != new.effect),
            (FacePart::Title, old.title != new.title),
            (FacePart::Description, old.description != new.description),
            (FacePart::InputSchema, old.input_schema != new.input_schema),
            (FacePart::OutputSchema, old.output_schema != new.output_schema),
            (FacePart::Annotations, old.annotations != new.annotations),
            (FacePart::Server, old.definition != new.definition),
        ];
        let mut parts: Vec<_> =
            differ.into_iter().filter_map(|(part, differs)| differs.then_some(part)).collect();
        let is_cut = old.is_cut() || new.is_cut();
        if parts.is_empty() || old.fingerprint != new.fingerprint && is_cut {
            parts.push(FacePart::Unshown);
        }
        parts
    }
}
