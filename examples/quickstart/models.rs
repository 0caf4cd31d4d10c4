//! A real model: which account it belongs to, and where its key is.

use std::env;

use pilothouse::models::{Account, Models};
use pilothouse::secret::Secret;

use crate::Error;

/// What a real model has to know about the job.
const PROMPT: &str =
    "You keep a harbour's notes. Look things up with your tools, act with them, and answer in one sentence.";

/// The account that the model's name begins with.
pub(crate) fn of(model: &str) -> Result<Models, Error> {
    let (name, account) = match model.split_once('/') {
        Some(("openai", _)) => ("openai", Account::openai(key("OPENAI_API_KEY")?)),
        Some(("anthropic", _)) => ("anthropic", Account::anthropic(key("ANTHROPIC_API_KEY")?)),
        Some(("local", _)) => {
            let url =
                env::var("OPENAI_BASE_URL").unwrap_or_else(|_unset| "http://localhost:11434/v1".to_owned());
            let account = Account::compatible(url);
            // Local servers rarely ask for a key.
            ("local", key("OPENAI_API_KEY").into_iter().fold(account, Account::key))
        }
        Some(_) | None => {
            return Err(
                format!("\"{model}\" is no model here: openai/NAME, anthropic/NAME or local/NAME").into()
            );
        }
    };
    Ok(Models::new().account(name, &account.system(PROMPT))?)
}

fn key(variable: &str) -> Result<Secret, Error> {
    let key = env::var(variable).map_err(|_unset| format!("set {variable} to your key"))?;
    Ok(Secret::new(key))
}
