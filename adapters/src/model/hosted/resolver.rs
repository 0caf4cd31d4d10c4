//! Finds models by account and name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::site::Site;
use super::{Account, AccountError, HostedModel};
use crate::model::{Model, ModelResolver};

/// Accounts by a name of the embedder's: `work/gpt-5` is the model `gpt-5` of the account `work`. All models of an
/// account share its connections.
#[derive(Clone, Default)]
#[must_use]
pub struct Models(BTreeMap<String, Arc<Site>>);

impl Models {
    /// No account yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an account under this name, which has no slash; the last one of a name wins.
    ///
    /// # Errors
    /// What is wrong with the account.
    pub fn account(mut self, name: impl Into<String>, account: &Account) -> Result<Self, AccountError> {
        self.0.insert(name.into(), Arc::new(Site::of(account)?));
        Ok(self)
    }
}

impl ModelResolver for Models {
    fn resolve(&self, name: &str) -> Option<Arc<dyn Model>> {
        let (account, model) = name.split_once('/')?;
        let site = self.0.get(account).filter(|_| !model.is_empty())?.clone();
        Some(Arc::new(HostedModel { site, name: model.into() }))
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
