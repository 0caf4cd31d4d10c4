//! What an embedder does with messages that wait or are held, and with a turn that was cut short.

use pilothouse_messages::error::{AskError, TopicError};
use pilothouse_messages::id::{MessageId, TurnId};
use pilothouse_messages::topic::{Level, QueueCommand, TopicAnswer, TopicCommand};

use super::{Sent, Topic};

impl Topic {
    /// Gives a message that waits or is held another text, in its place.
    ///
    /// # Errors
    /// A rejection (the message is unknown, in a turn, answered or dropped; the text is empty or too long), or that the
    /// topic could not be asked. Nothing changed then.
    pub async fn edit(&self, message: MessageId, text: impl Into<String>) -> Result<Sent, TopicError> {
        self.placed(TopicCommand::Queue(QueueCommand::Edit { message, text: text.into() })).await
    }

    /// Takes away a message that waits or is held: it never runs. It stays in the records, with who asked.
    ///
    /// # Errors
    /// As [`edit`](Self::edit).
    pub async fn drop_message(&self, message: MessageId, by: impl Into<String>) -> Result<(), TopicError> {
        self.command(TopicCommand::Queue(QueueCommand::Drop { message, by: by.into() })).await?;
        Ok(())
    }

    /// Puts the messages that wait into this order, the head first.
    ///
    /// # Errors
    /// [`WrongOrder`](pilothouse_messages::topic::TopicRejection::WrongOrder) unless each message that waits now is named
    /// once and those for the next turn come last: whoever looks at an older queue changes nothing. Or that the topic
    /// could not be asked.
    pub async fn reorder(&self, messages: impl IntoIterator<Item = MessageId>) -> Result<(), TopicError> {
        let messages = messages.into_iter().collect();
        self.command(TopicCommand::Queue(QueueCommand::Reorder { messages })).await?;
        Ok(())
    }

    /// Sends a held message again: it starts a turn, or waits for the open one. It keeps its id and its key.
    ///
    /// # Errors
    /// A rejection (it is not held, the queue is full), or that the topic could not be asked.
    pub async fn resend(&self, message: MessageId) -> Result<Sent, TopicError> {
        self.placed(TopicCommand::Queue(QueueCommand::Resend { message })).await
    }

    /// Chooses how soon a message that waits or is held is to be seen. One that waits and becomes [`Level::Now`] cancels
    /// the calls that may be interrupted.
    ///
    /// # Errors
    /// As [`edit`](Self::edit).
    pub async fn relevel(&self, message: MessageId, level: Level) -> Result<Sent, TopicError> {
        self.placed(TopicCommand::Queue(QueueCommand::Relevel { message, level })).await
    }

    /// Takes up the last turn, if it was truncated, interrupted, at its step limit, or ended with an expired card. It goes
    /// on as a new turn over the same history, with a fresh count of steps; the messages that the old one left unanswered
    /// are answered by it.
    ///
    /// # Errors
    /// A rejection (a turn is open, the last one was not cut short), or that the topic could not be asked.
    pub async fn continue_turn(&self) -> Result<TurnId, TopicError> {
        match self.command(TopicCommand::Continue).await? {
            TopicAnswer::Continued { turn } => Ok(turn),
            // Such a command has no other answer.
            TopicAnswer::Sent { .. }
            | TopicAnswer::Stopped { .. }
            | TopicAnswer::Configured(_)
            | TopicAnswer::Noted => Err(TopicError::Ask(AskError::Interrupted)),
        }
    }
}
