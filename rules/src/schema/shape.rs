//! Decides in which terms a schema is understood: what values it admits, at least.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Number, Value};

/// The values that a schema admits, or more than those.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    pub(crate) description: Option<String>,
    pub(crate) default: Option<Value>,
    /// Whether `null` is admitted; always so if anything is.
    pub(crate) null: bool,
    pub(crate) forms: Forms,
}

/// What a value may be, beside `null`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Forms {
    Any,
    /// One of these; nothing if empty.
    Of(Vec<Branch>),
}

/// One alternative.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Branch {
    pub(crate) description: Option<String>,
    pub(crate) form: Form,
}

/// Values of one JSON type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Form {
    /// Both, or one of them.
    Flag(Option<bool>),
    Text(Text),
    Numeral(Numeral),
    List(List),
    Object(Object),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Text {
    pub(crate) values: Option<Vec<String>>,
    pub(crate) format: Option<String>,
    pub(crate) pattern: Option<String>,
    pub(crate) min: Option<Number>,
    pub(crate) max: Option<Number>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Numeral {
    pub(crate) kind: NumberKind,
    pub(crate) values: Option<Vec<Number>>,
    pub(crate) min: Option<Number>,
    pub(crate) max: Option<Number>,
    pub(crate) above: Option<Number>,
    pub(crate) below: Option<Number>,
    pub(crate) multiple_of: Option<Number>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum NumberKind {
    Integer,
    #[default]
    Real,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct List {
    pub(crate) items: Option<Box<Shape>>,
    pub(crate) min: Option<Number>,
    pub(crate) max: Option<Number>,
    pub(crate) unique: bool,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Object {
    pub(crate) description: Option<String>,
    pub(crate) properties: BTreeMap<String, Shape>,
    pub(crate) required: BTreeSet<String>,
    pub(crate) rest: Rest,
    pub(crate) min: Option<Number>,
    pub(crate) max: Option<Number>,
}

/// What an object may hold beside its properties.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Rest {
    /// Nothing is said, so anything; few schemas mean it.
    #[default]
    Unsaid,
    /// Anything, said so.
    Open,
    Closed,
    Of(Box<Shape>),
}

impl Shape {
    pub(crate) fn any() -> Self {
        Self { description: None, default: None, null: true, forms: Forms::Any }
    }

    /// Admits nothing.
    pub(crate) fn never() -> Self {
        Self { description: None, default: None, null: false, forms: Forms::Of(Vec::new()) }
    }

    pub(crate) fn of(form: Form) -> Self {
        let branch = Branch { description: None, form };
        Self { forms: Forms::Of(vec![branch]), ..Self::never() }
    }

    pub(crate) fn is_any(&self) -> bool {
        self.forms == Forms::Any
    }

    pub(crate) fn is_never(&self) -> bool {
        !self.null && self.forms == Forms::Of(Vec::new())
    }
}

impl Form {
    /// Every type but null, without a bound.
    pub(crate) fn every() -> [Self; 5] {
        [
            Self::Text(Text::default()),
            Self::Numeral(Numeral::default()),
            Self::Flag(None),
            Self::Object(Object::default()),
            Self::List(List::default()),
        ]
    }
}

impl From<Form> for Branch {
    fn from(form: Form) -> Self {
        Self { description: None, form }
    }
}
