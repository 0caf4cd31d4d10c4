//! The verbs about what a topic has behind it.

use serde_json::{Value, json};

use super::show;
use super::stage::Stage;
use super::verbs::Answered;
use crate::line::{ExportFields, HistoryFields, ViewFields};

impl Stage {
    pub(super) async fn history(&mut self, fields: HistoryFields) -> Answered {
        let page = self.topic(&fields.topic).await?.history(fields.cursor).await?;
        let turns: Vec<Value> = page.turns.iter().map(|turn| show::turn(turn)).collect();
        Ok(show::fields(json!({"topic": fields.topic, "turns": turns, "earlier": page.earlier})))
    }

    pub(super) async fn export(&mut self, fields: ExportFields) -> Answered {
        let page = self.topic(&fields.topic).await?.export(fields.from).await?;
        Ok(show::fields(json!({"topic": fields.topic, "lines": page.lines, "next": page.next})))
    }

    pub(super) async fn delete_topic(&mut self, fields: ViewFields) -> Answered {
        self.runtime().await?.delete_topic(fields.topic.as_str()).await?;
        self.windows.remove(&fields.topic);
        Ok(show::fields(json!({"topic": fields.topic})))
    }
}
