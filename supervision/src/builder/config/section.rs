//! Finds the servers in a file, in their order and with every key, so that a repeated one is seen.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The top of a file.
#[derive(Debug, Default)]
pub(super) struct Root {
    /// Each section by the name that it has.
    pub(super) sections: Vec<(String, Section)>,
    /// What else stands there.
    pub(super) unknown: Vec<String>,
}

/// A section of servers.
#[derive(Debug)]
pub(super) enum Section {
    Named(Vec<(String, Value)>),
    Listed(Vec<Value>),
}

impl<'de> Deserialize<'de> for Root {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RootVisitor)
    }
}

struct RootVisitor;

impl<'de> Visitor<'de> for RootVisitor {
    type Value = Root;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `mcpServers` or `servers`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Root, A::Error> {
        let mut root = Root::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "mcpServers" | "servers" => root.sections.push((key, map.next_value()?)),
                // The settings of VS Code hold the same file under this key.
                "mcp" => {
                    let inner: Root = map.next_value()?;
                    let within = |name: &String| format!("mcp.{name}");
                    root.unknown.extend(inner.unknown.iter().map(within));
                    root.sections
                        .extend(inner.sections.into_iter().map(|(name, section)| (within(&name), section)));
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    root.unknown.push(key);
                }
            }
        }
        Ok(root)
    }
}

impl<'de> Deserialize<'de> for Section {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SectionVisitor)
    }
}

struct SectionVisitor;

impl<'de> Visitor<'de> for SectionVisitor {
    type Value = Section;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of servers by name, or an array of servers with an `id`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Section, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Section::Named(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Section, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = seq.next_element()? {
            entries.push(entry);
        }
        Ok(Section::Listed(entries))
    }
}
