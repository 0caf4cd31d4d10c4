//! Every verb with its fields.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::expect::{Expect, ExpectAbsent};
use super::fields::{
    AnswerFields, AttachFields, CallFields, ConfigureFields, DecideFields, DetachFields, EnableFields,
    ExportFields, HistoryFields, ListFields, RefreshFields, RestartFields, RevokeFields, SendFields,
    ServerFields, SleepFields, StopFields, TopicFields, ViewFields,
};
use super::queue::{DropFields, EditFields, RelevelFields, ReorderFields, ResendFields};

/// What one line asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Verb {
    /// Defines a server.
    Server(Box<ServerFields>),
    /// Ends a server's connection and starts a new one.
    ServerRestart(RestartFields),
    /// Forgets a server.
    ServerRemove(RestartFields),
    /// Switches a server on or off.
    ServerEnable(EnableFields),
    /// Lists a server's tools again.
    Refresh(RefreshFields),
    /// Opens a topic.
    Topic(Box<TopicFields>),
    /// Sends a person's message.
    Send(SendFields),
    /// Stops a topic's turn.
    Stop(StopFields),
    /// Decides about cards.
    Decide(DecideFields),
    /// Changes a topic's settings.
    Configure(ConfigureFields),
    /// Subscribes to a topic.
    Attach(AttachFields),
    /// Ends a subscription.
    Detach(DetachFields),
    /// Calls a tool outside a turn.
    Call(CallFields),
    /// Shows a server's listing.
    List(ListFields),
    /// Shows what a topic's model is shown.
    Surface(ViewFields),
    /// Shows a topic.
    View(ViewFields),
    /// Shows the supervision tree.
    Tree,
    /// Shows the open cards.
    Approvals,
    /// Shows the grants that hold.
    Grants,
    /// Takes a grant back.
    Revoke(RevokeFields),
    /// Shows what servers ask people.
    Questions,
    /// Answers a server's question.
    Answer(AnswerFields),
    /// Waits for a line out.
    Expect(Expect),
    /// Waits, and holds if a line does not come.
    ExpectAbsent(ExpectAbsent),
    /// Waits.
    Sleep(SleepFields),
    /// Stops gracefully and starts again on the same data.
    Restart,
    /// Ends the process at once.
    Crash,
    /// Takes up a turn that was cut short.
    Continue(StopFields),
    /// Gives a message that waits or is held another text.
    Edit(EditFields),
    /// Takes such a message away.
    Drop(DropFields),
    /// Puts the messages that wait into another order.
    Reorder(ReorderFields),
    /// Sends a held message again.
    Resend(ResendFields),
    /// Chooses how soon a message is to be seen.
    Relevel(RelevelFields),
    /// Shows a page of a topic's closed turns.
    History(HistoryFields),
    /// Shows a page of a topic's records.
    Export(ExportFields),
    /// Removes a topic.
    DeleteTopic(ViewFields),
}

/// The verbs, as an unknown one is told.
const NAMES: [&str; 36] = [
    "server",
    "server_restart",
    "server_enable",
    "server_remove",
    "refresh",
    "topic",
    "send",
    "stop",
    "decide",
    "configure",
    "attach",
    "detach",
    "call",
    "list",
    "surface",
    "view",
    "tree",
    "approvals",
    "grants",
    "revoke",
    "questions",
    "answer",
    "expect",
    "expect_absent",
    "sleep",
    "restart",
    "crash",
    "continue",
    "edit",
    "drop",
    "reorder",
    "resend",
    "relevel",
    "history",
    "export",
    "delete_topic",
];

/// A field's path, if the error is in a field, and the reason.
type FieldError = (Option<String>, String);

/// Reads a verb's fields.
pub(super) fn read(name: &str, body: &Value) -> Result<Verb, FieldError> {
    match name {
        "server" => fields(name, body).map(|server| Verb::Server(Box::new(server))),
        "server_restart" => fields(name, body).map(Verb::ServerRestart),
        "server_enable" => fields(name, body).map(Verb::ServerEnable),
        "server_remove" => fields(name, body).map(Verb::ServerRemove),
        "refresh" => fields(name, body).map(Verb::Refresh),
        "topic" => fields(name, body).map(|topic| Verb::Topic(Box::new(topic))),
        "send" => fields(name, body).map(Verb::Send),
        "stop" => fields(name, body).map(Verb::Stop),
        "decide" => fields(name, body).map(Verb::Decide),
        "configure" => configure(name, body).map(Verb::Configure),
        "attach" => fields(name, body).map(Verb::Attach),
        "detach" => fields(name, body).map(Verb::Detach),
        "call" => fields(name, body).map(Verb::Call),
        "list" => fields(name, body).map(Verb::List),
        "surface" => fields(name, body).map(Verb::Surface),
        "view" => fields(name, body).map(Verb::View),
        "tree" => none(name, body).map(|()| Verb::Tree),
        "approvals" => none(name, body).map(|()| Verb::Approvals),
        "grants" => none(name, body).map(|()| Verb::Grants),
        "revoke" => fields(name, body).map(Verb::Revoke),
        "questions" => none(name, body).map(|()| Verb::Questions),
        "answer" => fields(name, body).map(Verb::Answer),
        "expect" => fields(name, body).map(Verb::Expect),
        "expect_absent" => fields(name, body).map(Verb::ExpectAbsent),
        "sleep" => fields(name, body).map(Verb::Sleep),
        "restart" => none(name, body).map(|()| Verb::Restart),
        "crash" => none(name, body).map(|()| Verb::Crash),
        "continue" => fields(name, body).map(Verb::Continue),
        "edit" => fields(name, body).map(Verb::Edit),
        "drop" => fields(name, body).map(Verb::Drop),
        "reorder" => fields(name, body).map(Verb::Reorder),
        "resend" => fields(name, body).map(Verb::Resend),
        "relevel" => fields(name, body).map(Verb::Relevel),
        "history" => fields(name, body).map(Verb::History),
        "export" => fields(name, body).map(Verb::Export),
        "delete_topic" => fields(name, body).map(Verb::DeleteTopic),
        other => {
            Err((Some(other.to_owned()), format!("there is no such verb; use one of {}", NAMES.join(", "))))
        }
    }
}

fn fields<T: DeserializeOwned>(verb: &str, body: &Value) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(body).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { verb.to_owned() } else { format!("{verb}.{path}") };
        (Some(field), error.into_inner().to_string())
    })
}

/// The topic stands beside the settings, so it is taken out first: each field keeps its own path.
fn configure(verb: &str, body: &Value) -> Result<ConfigureFields, FieldError> {
    let mut settings = body.clone();
    let topic = settings.as_object_mut().and_then(|settings| settings.remove("topic"));
    let named = match topic {
        Some(topic) => json!({"topic": topic}),
        None => json!({}),
    };
    let ViewFields { topic } = fields(verb, &named)?;
    Ok(ConfigureFields { topic, config: fields(verb, &settings)? })
}

/// A verb without fields: `{}`, or anything that stands for nothing.
fn none(verb: &str, body: &Value) -> Result<(), FieldError> {
    match body {
        Value::Null | Value::Bool(true) => Ok(()),
        Value::Object(fields) => match fields.keys().next() {
            None => Ok(()),
            Some(field) => {
                Err((Some(format!("{verb}.{field}")), "the verb has no fields: write {}".to_owned()))
            }
        },
        Value::Bool(false) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err((Some(verb.to_owned()), "the verb has no fields: write {}".to_owned()))
        }
    }
}
