//! The scripted server of 2026-07-28.

use serde_json::{Value, json};

use crate::script::{Step, result, say, text};

/// A state that a careless echo would change.
pub(crate) const STATE: &str = "a\u{e9}\n\"b\u{1f600}\\";

pub(crate) struct Modern {
    name: String,
    listening: Vec<Value>,
    polled: u32,
    told: Vec<String>,
}

impl Modern {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), listening: Vec::new(), polled: 0, told: Vec::new() }
    }

    pub(crate) fn steps(&mut self, message: &Value) -> Vec<Step> {
        let (id, params) = (&message["id"], &message["params"]);
        let method = message["method"].as_str().unwrap_or_default();
        let version = &params["_meta"]["io.modelcontextprotocol/protocolVersion"];
        if !id.is_null() && version != "2026-07-28" {
            return vec![Step::Die(94)];
        }
        match method {
            "server/discover" => self.discover(id),
            "tools/list" => {
                let tools = json!([{"name": "questions", "inputSchema": {"type": "object"}}]);
                vec![result(
                    id,
                    json!({"resultType": "complete", "tools": tools, "ttlMs": 1_500, "cacheScope": "public"}),
                )]
            }
            "subscriptions/listen" => {
                self.listening.push(id.clone());
                let filter = &params["notifications"];
                let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
                let told = json!({"_meta": meta, "notifications": filter});
                vec![say(
                    &json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": told}),
                )]
            }
            "tasks/get" => self.task(id),
            "tasks/update" | "tasks/cancel" => {
                self.told.push(format!("{method} {} {}", params["taskId"], params["inputResponses"]));
                vec![result(id, json!({"resultType": "complete"}))]
            }
            "tools/call" => self.call(id, params),
            _ => vec![],
        }
    }

    fn discover(&mut self, id: &Value) -> Vec<Step> {
        let error = |code: i64, data: Value| {
            vec![say(
                &json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no", "data": data}}),
            )]
        };
        match self.name.as_str() {
            "modern but picky" => error(-32021, json!({})),
            "modern of another time" => error(-32022, json!({"supported": ["2030-01-01"]})),
            _ => vec![result(
                id,
                json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "public",
                    "capabilities": {"tools": {"listChanged": true}},
                }),
            )],
        }
    }

    fn task(&mut self, id: &Value) -> Vec<Step> {
        self.polled += 1;
        let mut task =
            json!({"resultType": "complete", "taskId": "t2", "ttlMs": null, "pollIntervalMs": 1_000});
        let (key, value, status) = match self.polled {
            1 => ("statusMessage", json!("on it"), "working"),
            2 => ("inputRequests", json!({"dir": {"method": "roots/list"}}), "input_required"),
            _ => {
                ("result", json!({"content": [{"type": "text", "text": self.told.join("; ")}]}), "completed")
            }
        };
        task[key] = value;
        task["status"] = json!(status);
        vec![result(id, task)]
    }

    fn call(&mut self, id: &Value, params: &Value) -> Vec<Step> {
        match params["name"].as_str().unwrap_or_default() {
            "questions" if params["inputResponses"].is_null() => {
                let form =
                    json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
                let ask = json!({"who": {"method": "elicitation/create", "params": form}});
                vec![result(
                    id,
                    json!({"resultType": "input_required", "inputRequests": ask, "requestState": STATE}),
                )]
            }
            "questions" => {
                let whole = json!([params["inputResponses"], params["requestState"], params["arguments"]]);
                vec![text(id, whole.to_string())]
            }
            "task" => {
                let task = json!({"resultType": "task", "taskId": "t2", "status": "working", "ttlMs": 5_000, "pollIntervalMs": 20});
                vec![result(id, task)]
            }
            "ends listening" => {
                let ended = self.listening.last().cloned().unwrap_or_default();
                let meta = json!({"io.modelcontextprotocol/subscriptionId": ended});
                vec![result(&ended, json!({"resultType": "complete", "_meta": meta})), text(id, "ended")]
            }
            "cancels listening" => {
                let ended = self.listening.last().cloned().unwrap_or_default();
                let told = json!({"requestId": ended});
                vec![
                    say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": told})),
                    text(id, "cancelled"),
                ]
            }
            "changes" => {
                let meta = json!({"io.modelcontextprotocol/subscriptionId": self.listening.last()});
                let params = json!({"_meta": meta});
                let notice =
                    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": params});
                vec![say(&notice), text(id, "changed")]
            }
            "listens" => vec![text(id, self.listening.len().to_string())],
            "meta" => {
                vec![text(id, params["_meta"]["io.modelcontextprotocol/clientCapabilities"].to_string())]
            }
            _ => vec![],
        }
    }
}
