//! What the verbs about messages that wait or are held do, and the one about a turn that was cut short.

use serde_json::json;

use super::out::Fields;
use super::refusal::Refusal;
use super::show;
use super::stage::Stage;
use crate::line::{DropFields, EditFields, RelevelFields, ReorderFields, ResendFields, StopFields};

impl Stage {
    pub(super) async fn edit(&mut self, fields: EditFields) -> Result<Fields, Refusal> {
        let sent = self.topic(&fields.topic).await?.edit(fields.message, fields.text).await?;
        Ok(show::sent(&fields.topic, &sent))
    }

    pub(super) async fn drop_message(&mut self, fields: DropFields) -> Result<Fields, Refusal> {
        self.topic(&fields.topic).await?.drop_message(fields.message, fields.by.as_str()).await?;
        let told =
            json!({"topic": fields.topic, "message": fields.message, "receipt": "dropped", "by": fields.by});
        Ok(show::fields(told))
    }

    pub(super) async fn reorder(&mut self, fields: ReorderFields) -> Result<Fields, Refusal> {
        self.topic(&fields.topic).await?.reorder(fields.messages.iter().copied()).await?;
        Ok(show::fields(json!({"topic": fields.topic, "messages": fields.messages})))
    }

    pub(super) async fn resend(&mut self, fields: ResendFields) -> Result<Fields, Refusal> {
        let sent = self.topic(&fields.topic).await?.resend(fields.message).await?;
        Ok(show::sent(&fields.topic, &sent))
    }

    pub(super) async fn relevel(&mut self, fields: RelevelFields) -> Result<Fields, Refusal> {
        let sent = self.topic(&fields.topic).await?.relevel(fields.message, fields.level).await?;
        Ok(show::sent(&fields.topic, &sent))
    }

    pub(super) async fn continue_turn(&mut self, fields: StopFields) -> Result<Fields, Refusal> {
        let turn = self.topic(&fields.topic).await?.continue_turn().await?;
        Ok(show::fields(json!({"topic": fields.topic, "turn": turn})))
    }
}
