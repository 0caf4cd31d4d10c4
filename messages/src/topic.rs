//! Topics: commands, events, directives, views and updates of one conversation.

pub mod checkpoint;
pub mod command;
pub mod config;
pub mod event;
pub mod nested;
pub mod queue;
pub mod rejection;
pub mod settings;
pub mod terms;
pub mod update;
pub mod view;

pub use checkpoint::{ExportPage, HistoryCursor, HistoryPage, StoredKey, TopicCheckpoint, WaitingMessage};
pub use command::{
    CallPlan, CardNews, Classified, Directive, Findings, ModelReply, PlannedCall, Recovery, RequestedCall,
    Resolution, ResolvedTool, Shown, TopicAnswer, TopicCommand,
};
pub use config::{ConfigPatch, Headless, PermissionMode, TopicConfig};
pub use event::{HoldReason, RunBasis, StopReason, TopicEvent};
pub use nested::{NestedCall, NestedNews, NestedPlan};
pub use queue::{Level, QueueCommand};
pub use rejection::TopicRejection;
pub use settings::{Configured, Setting};
pub use terms::{AfterCrash, Budget, BudgetLimit, Claim, CostLimit, Steering, TurnTerms};
pub use update::{TopicEventOut, TopicUpdate};
pub use view::{
    CallState, CallView, LiveInput, LiveStep, MessageView, NestedView, Receipt, StepView, TopicStatus,
    TopicView, TurnView,
};
