//! Topics: commands, events, directives, views and updates of one conversation.

pub mod command;
pub mod config;
pub mod event;
pub mod update;
pub mod view;

pub use command::{
    CallPlan, CardNews, Classified, Directive, Findings, ModelReply, PlannedCall, Recovery, RequestedCall,
    Resolution, ResolvedTool, Shown, TopicAnswer, TopicCommand, TopicRejection,
};
pub use config::{ConfigPatch, Headless, PermissionMode, TopicConfig};
pub use event::{HoldReason, RunBasis, StopReason, TopicEvent};
pub use update::{TopicEventOut, TopicUpdate};
pub use view::{
    CallState, CallView, LiveInput, LiveStep, MessageView, Receipt, StepView, TopicStatus, TopicView,
    TurnView,
};
