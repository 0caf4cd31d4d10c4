//! Puts what servers ask to people: the port of a runtime whose embedder has set none.
//!
//! Only a question of a topic's call that runs is put, only so many in one call, and only where somebody may be there;
//! everything else is declined at once.
//! The question is stored before it is shown, and its answer before the server is told. A call that no longer waits
//! takes its question back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use pilothouse_adapters::BoxFuture;
use pilothouse_adapters::asks::{Ask, AskKind, Asks, Question, Reply};
use pilothouse_messages::approval::{ApprovalAnswer, ApprovalCommand};
use pilothouse_messages::id::{QuestionId, TopicId};
use pilothouse_messages::json::JsonText;
use pilothouse_messages::question::{self, PersonAsk, QuestionCard};
use pilothouse_messages::topic::Headless;
use serde_json::{Map, Value};

use crate::approval::{ApprovalMsg, Unasked};
use crate::wiring::Wiring;

/// A larger form is no form for a person (64 KiB).
const SCHEMA_BYTES_MAX: usize = 64 << 10;

/// Asks people by cards in the ledger.
pub struct People {
    /// Weak, since the wiring holds this.
    wiring: Weak<Wiring>,
    /// Tells questions of one moment apart.
    asked: AtomicU64,
}

impl People {
    /// The port of this wiring.
    pub fn of(wiring: Weak<Wiring>) -> Self {
        Self { wiring, asked: AtomicU64::new(0) }
    }

    async fn put(&self, question: Question) -> Option<Reply> {
        let wiring = self.wiring.upgrade()?;
        let card = self.card(&wiring, question)?;
        let name = card.question;
        let limit = wiring.limits.questions_per_call;
        let waiting = wiring.approval.questions.wait(&card, limit);
        let waiting = waiting.inspect_err(|unasked| tell_unasked(&card, *unasked, limit)).ok()?;
        let _asking = Asking { wiring: wiring.clone(), question: name };
        let command = ApprovalCommand::Ask(Box::new(card));
        let asked = wiring.approval.slot.ask(|reply| ApprovalMsg::Command { command, reply: Some(reply) });
        match asked.await {
            Ok(Ok(ApprovalAnswer::Opened)) => waiting.await.ok().map(replied),
            // A ledger that cannot be asked, or has no room, shows nobody a card.
            Ok(_) | Err(_) => None,
        }
    }

    fn card(&self, wiring: &Wiring, Question { server, origin, ask }: Question) -> Option<QuestionCard> {
        let (topic, call) = (origin.topic?, origin.call?);
        let place = wiring.servers.place(&server)?;
        let tenant = tenant_with_people(wiring, &topic)?;
        let cut = |text: String| {
            let mut end = text.len().min(wiring.limits.description_bytes);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text[..end].to_owned()
        };
        let ask = match ask {
            Ask::Form { message, schema } => {
                let schema = JsonText::from(schema);
                if schema.as_str().len() > SCHEMA_BYTES_MAX {
                    return None;
                }
                PersonAsk::Form { message: cut(message), schema }
            }
            Ask::Url { message, url, host, id: _ } => PersonAsk::Url { message: cut(message), url, host },
            Ask::Roots | Ask::Sampling(_) => return None,
        };
        let now = wiring.clock.now();
        let n = self.asked.fetch_add(1, Ordering::Relaxed);
        // A little less than the server's port waits, so that it is told that nobody answered.
        let patience = wiring.limits.question.mul_f32(0.9);
        Some(QuestionCard {
            question: QuestionId::of(&topic, call, now, n),
            tenant,
            topic,
            call,
            label: place.definition.name.clone(),
            server,
            ask,
            expires_at: now.after(patience),
        })
    }
}

/// Whose topic it is, unless nobody is there to be asked.
fn tenant_with_people(wiring: &Wiring, topic: &TopicId) -> Option<pilothouse_messages::id::TenantId> {
    let view = wiring.topics.place(topic)?.hub.view()?;
    match view.config.headless {
        Headless::Park => Some(view.config.tenant.clone()),
        Headless::Deny => None,
    }
}

fn replied(reply: question::Reply) -> Reply {
    match reply {
        question::Reply::Accept(content) => match content.value() {
            Value::Object(fields) => Reply::Accepted(fields),
            _ => Reply::Accepted(Map::new()),
        },
        question::Reply::Decline => Reply::Declined,
        question::Reply::Dismiss => Reply::Dismissed,
    }
}

/// Says that a server asks without end, once a call.
fn tell_unasked(card: &QuestionCard, unasked: Unasked, limit: usize) {
    match unasked {
        Unasked::TooMany { asked } if asked == limit => {
            let (server, topic, call) = (&card.server, &card.topic, card.call);
            tracing::warn!(
                target: "pilothouse", %server, %topic, %call, limit,
                "a server asks more in one call than a person is shown: the rest is declined"
            );
        }
        Unasked::TooMany { .. } | Unasked::CallIsOver => {}
    }
}

/// A call that waits; when it does not any more its question is taken back.
struct Asking {
    wiring: Arc<Wiring>,
    question: QuestionId,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.wiring.approval.questions.forget(self.question);
        let reason = "its call no longer waits for it".to_owned();
        let command = ApprovalCommand::DropQuestions { questions: vec![self.question], reason };
        // One that has its last word stays as it is; if this is lost the question expires by itself.
        self.wiring.approval.slot.inform(ApprovalMsg::Command { command, reply: None });
    }
}

impl Asks for People {
    fn kinds(&self) -> BTreeSet<AskKind> {
        [AskKind::Form, AskKind::Url].into()
    }

    fn answer(&self, question: Question) -> BoxFuture<'_, Reply> {
        Box::pin(async move { self.put(question).await.unwrap_or(Reply::Declined) })
    }
}
