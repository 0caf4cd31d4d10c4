//! Plain BM25 over one text for each tool, as the yardstick: k1 1.2, b .75, light stemming, the name twice, parameters
//! and their explanations included.

use std::collections::BTreeMap;

use serde_json::Value;

use super::catalogs::Catalog;

pub(crate) struct PlainIndex {
    tools: Vec<(String, String, BTreeMap<String, f64>, f64)>,
    found_in: BTreeMap<String, f64>,
    usual: f64,
}

impl PlainIndex {
    pub(crate) fn new(servers: &[Catalog]) -> Self {
        let mut tools = Vec::new();
        let mut found_in: BTreeMap<String, f64> = BTreeMap::new();
        for (server, tool) in
            servers.iter().flat_map(|server| server.tools.iter().map(move |tool| (server, tool)))
        {
            let mut text =
                format!("{0} {0} {1} ", tool.name, tool.description.as_deref().unwrap_or_default());
            parameters(&tool.input_schema.value(), &mut text);
            text.push_str(&server.label);
            let mut counts: BTreeMap<String, f64> = BTreeMap::new();
            words(&text).for_each(|word| *counts.entry(word).or_default() += 1.0);
            counts.keys().for_each(|word| *found_in.entry(word.clone()).or_default() += 1.0);
            let length = counts.values().sum();
            tools.push((format!("mcp:{}", server.id), tool.name.clone(), counts, length));
        }
        let usual = tools.iter().map(|tool| tool.3).sum::<f64>() / tools.len() as f64;
        Self { tools, found_in, usual }
    }

    pub(crate) fn search(&self, text: &str) -> Vec<(String, String)> {
        let all = self.tools.len() as f64;
        let mut scored: Vec<_> = self.tools.iter().map(|tool| (0.0, tool)).collect();
        for word in words(text) {
            let Some(count) = self.found_in.get(&word) else { continue };
            let rarity = (1.0 + (all - count + 0.5) / (count + 0.5)).ln();
            for (score, (_, _, counts, length)) in &mut scored {
                let n = counts.get(&word).copied().unwrap_or_default();
                *score += rarity * n * 2.2 / (n + 1.2 * (0.25 + 0.75 * length / self.usual));
            }
        }
        scored.retain(|(score, _)| *score > 0.0);
        scored.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.1.cmp(&y.1)));
        scored.into_iter().take(100).map(|(_, tool)| (tool.0.clone(), tool.1.clone())).collect()
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(|word| {
        let word = word.to_lowercase();
        let cut = ["ing", "ed", "es", "s"].iter().find_map(|end| word.strip_suffix(end));
        cut.filter(|stem| stem.len() > 2).unwrap_or(&word).to_owned()
    })
}

fn parameters(schema: &Value, text: &mut String) {
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        text.push_str(&format!("{name} {} ", schema["description"].as_str().unwrap_or_default()));
    }
}
