use super::{ConfigNote, ConfigOptions, OnMistake, env_file, jsonc, servers_from_json};

/// A server as a row shows it.
fn shown(server: &super::Server) -> String {
    use pilothouse_messages::server::Transport;
    let definition = server.defined().expect("an imported server has an id");
    let on = if definition.enabled { "" } else { " (off)" };
    let pairs = |map: &std::collections::BTreeMap<String, pilothouse_messages::secret::Secret>| {
        map.iter().map(|(name, value)| format!(" {name}={}", value.expose())).collect::<String>()
    };
    let reached = match &definition.transport {
        Transport::Stdio { command, args, env, cwd } => {
            let cwd = cwd.as_ref().map_or_else(String::new, |cwd| format!(" in {}", cwd.display()));
            format!("{command} {args:?}{}{cwd}", pairs(env))
        }
        Transport::Http { endpoint, headers } => format!("http {}{}", endpoint.expose(), pairs(headers)),
        Transport::Sse { endpoint, headers } => format!("sse {}{}", endpoint.expose(), pairs(headers)),
        Transport::InMemory { label } => format!("in memory {label}"),
    };
    format!("{}: {reached}{on}", definition.id)
}

fn listed(notes: &[ConfigNote]) -> Vec<String> {
    notes.iter().map(ToString::to_string).collect()
}

/// The servers and the warnings of a good file.
fn check(text: &str, options: &ConfigOptions, servers: &[&str], warnings: &[&str]) {
    let imported = servers_from_json(text, options).unwrap_or_else(|error| panic!("{text}: {error}"));
    let found: Vec<String> = imported.servers.iter().map(shown).collect();
    assert_eq!(found, servers, "{text}");
    assert_eq!(listed(&imported.warnings), warnings, "{text}");
}

/// The mistakes of a bad file.
fn refused(text: &str, options: &ConfigOptions, mistakes: &[&str]) {
    let error = servers_from_json(text, options).expect_err(text);
    assert_eq!(listed(&error.mistakes), mistakes, "{text}");
}

fn bare() -> ConfigOptions {
    ConfigOptions::new()
}

#[test]
fn files_of_well_known_programs_are_read() {
    // Claude Desktop.
    check(
        r#"{"mcpServers": {"files": {"command": "npx", "args": ["-y", "server"], "env": {"KEY": "k"}}},
            "globalShortcut": ""}"#,
        &bare(),
        &["files: npx [\"-y\", \"server\"] KEY=k"],
        &["`globalShortcut`: it is not about servers, and is left aside"],
    );
    // VS Code, in a file of its own and in its settings.
    let vscode = r#"{"inputs": [{"id": "key", "type": "promptString"}], "servers": {
        "hub": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${input:key}"}},
        "local": {"type": "stdio", "command": "${workspaceFolder}/run", "cwd": "${workspaceFolder}", "dev": {}},
    }}"#;
    let answered = bare().variable("input:key", "k").variable("workspaceFolder", "/w");
    check(
        vscode,
        &answered,
        &["hub: http https://example.com/mcp authorization=Bearer k", "local: /w/run [] in /w"],
        &[
            "`inputs`: it is not about servers, and is left aside",
            "server \"local\": `dev`: it is not understood here, and is left aside",
        ],
    );
    check(
        r#"{"mcp": {"servers": [{"id": "one", "command": "a"}, {"name": "two", "url": "http://localhost:1/mcp"}]}}"#,
        &bare(),
        &["one: a []", "two: http http://localhost:1/mcp"],
        &[],
    );
    // Cursor.
    check(
        r#"{"mcpServers": {"remote": {"url": "https://example.com/sse", "type": "sse"}, "b": {"url": "https://b.example/mcp"}}}"#,
        &bare(),
        &["remote: sse https://example.com/sse", "b: http https://b.example/mcp"],
        &[],
    );
    // Cline: what it lets run unasked is told, and grants nothing.
    check(
        r#"{"mcpServers": {"x": {"command": "x", "disabled": true, "autoApprove": ["rm"], "timeout": 60,
            "transportType": "stdio"}, "y": {"type": "streamableHttp", "url": "http://y/", "alwaysAllow": [], "trust": true}}}"#,
        &bare(),
        &["x: x [] (off)", "y: http http://y/"],
        &[
            "server \"x\": `autoApprove`: it grants nothing here: state effects or give grants in your program",
            "server \"x\": `timeout`: it is not understood here, and is left aside",
            "server \"y\": `alwaysAllow`: it grants nothing here: state effects or give grants in your program",
            "server \"y\": `trust`: it grants nothing here: state effects or give grants in your program",
        ],
    );
}

#[test]
fn only_variables_that_are_allowed_are_read() {
    let text =
        r#"{"servers": {"a": {"command": "${PATH}", "args": ["${env:HOME}", "${PORT:-80}", "$HOME"]}}}"#;
    refused(
        text,
        &bare(),
        &[
            "server \"a\": `command`: the variable PATH is not allowed: allow it with `ConfigOptions::allow_variable(\"PATH\")`, or give it with `ConfigOptions::variable`",
            "server \"a\": `args[0]`: the variable HOME is not allowed: allow it with `ConfigOptions::allow_variable(\"HOME\")`, or give it with `ConfigOptions::variable`",
            "server \"a\": `args[1]`: the variable PORT is not allowed: allow it with `ConfigOptions::allow_variable(\"PORT\")`, or give it with `ConfigOptions::variable`",
        ],
    );
    let path = std::env::var("PATH").expect("tests have a path");
    let allowed = bare().allow_variable("PATH").variable("HOME", "${PATH}").allow_variable("PORT");
    check(text, &allowed, &[&format!("a: {path} [\"${{PATH}}\", \"80\", \"$HOME\"]")], &[]);
    refused(
        r#"{"servers": {"a": {"command": "${PILOTHOUSE_NOWHERE}", "args": ["${x"], "cwd": "${input:dir}"}}}"#,
        &bare().allow_variable("PILOTHOUSE_NOWHERE"),
        &[
            "server \"a\": `command`: the variable PILOTHOUSE_NOWHERE is not set: set it, or write ${PILOTHOUSE_NOWHERE:-default}",
            "server \"a\": `args[0]`: a `${` has no `}`: close it",
            "server \"a\": `cwd`: it asks a person for \"dir\": ask yourself, and give the answer with `ConfigOptions::variable(\"input:dir\", …)`",
        ],
    );
}

#[test]
fn every_mistake_is_told_at_once_and_no_value_with_it() {
    let text = r#"{"mcpServers": {
        "": {"command": "x"},
        "both": {"command": "x", "url": "hush"},
        "none": {},
        "list": ["hush"],
        "kind": {"type": "hush", "command": 7},
        "bad": {"command": "x", "args": "hush", "env": {"A": 7, "": "x"}, "disabled": "hush"},
        "far": {"url": "hush://x", "headers": {"a b": "hush", "c": "hush\n"}},
        "twin": {"command": "x"}, " twin ": {"command": "y"}, "good": {"command": "g"}
    }}"#;
    let mistakes = [
        "server \"\": `.`: it has no name: give it one",
        "server \"both\": `.`: it has a `command` and a `url`: leave one of them out",
        "server \"none\": `.`: it has neither a `command` nor a `url`: give it one of them",
        "server \"list\": `.`: a server is an object, not a list",
        "server \"kind\": `type`: write `stdio`, `http` (also `streamable-http`) or `sse`",
        "server \"kind\": `command`: write a text in quotes, not a number",
        "server \"bad\": `disabled`: write true or false, not a text",
        "server \"bad\": `args`: write a list of texts, not a text",
        "server \"bad\": `env.A`: write a text in quotes, not a number",
        "server \"bad\": `env`: \"\" is no name of a variable: correct it",
        "server \"far\": `headers`: \"a b\" is no name of a header: correct it",
        "server \"far\": `headers.c`: it has a line break or another control character: remove it",
        "server \"far\": `url`: it begins with neither http:// nor https://: write an http or https URL",
        "server \" twin \": `.`: another server has the id \"twin\": rename one of them",
    ];
    refused(text, &bare(), &mistakes);
    let kept =
        servers_from_json(text, &bare().on_mistake(OnMistake::KeepOthers)).expect("the others are kept");
    assert_eq!(kept.servers.iter().map(shown).collect::<Vec<_>>(), ["twin: x []", "good: g []"]);
    assert_eq!(listed(&kept.mistakes), mistakes);
    let words = format!("{kept:?} {:?}", bare().variable("A", "hush"));
    assert!(!words.contains("hush"), "{words}");
}

#[test]
fn a_file_that_is_none_is_refused_with_its_place() {
    let rows = [
        ("", "`.`: it is no JSON from line 1, column 0 on: correct it there"),
        ("{\n \"servers\": {\"a\": hush}}", "`.`: it is no JSON from line 2, column 19 on: correct it there"),
        ("{/* x\n", "`.`: the comment that begins in line 1 does not end: close it"),
        (
            "{\"servers\": \"hush\"}",
            "`.`: at line 1, column 18 there is neither an object of servers by name nor a list of servers",
        ),
        ("{}", "`.`: there is neither `mcpServers` nor `servers`: put the servers into one of them"),
        (
            r#"{"servers": [{"command": "x"}]}"#,
            "server \"servers[0]\": `id`: a server of a list has an `id` or a `name`, as text: give it one",
        ),
        (
            r#"{"servers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#,
            "server \"a\": `.`: another server has the id \"a\": rename one of them",
        ),
    ];
    for (text, mistake) in rows {
        refused(text, &bare(), &[mistake]);
    }
    let long = " ".repeat(super::TEXT_BYTES_MAX + 1);
    refused(&long, &bare(), &["`.`: the file is larger than 1048576 bytes: shorten it"]);
}

#[test]
fn comments_and_trailing_commas_are_taken_out_and_nothing_else() {
    let rows = [
        ("{\"a\": 1, // x, }\n}", "{\"a\": 1  \n}"),
        ("[1, /* , */ 2, /* \n */ ]", "[1,   2    \n ]"),
        ("{\"a\": \"// /* , }\\\" ,}\"}", "{\"a\": \"// /* , }\\\" ,}\"}"),
        ("\u{feff}{}", "{}"),
        ("[\"a\",]", "[\"a\" ]"),
    ];
    for (text, plain) in rows {
        let squeezed = |text: &str| text.replace(' ', "");
        let found = jsonc::plain(text).expect("its comments end");
        assert_eq!(squeezed(&found), squeezed(plain), "{text}");
    }
    assert_eq!(jsonc::plain("\n/* x").expect_err("it does not end").line, 2);
}

#[test]
fn a_file_of_variables_is_read_below_its_directory_only() {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let base = directory.path().join("base");
    std::fs::create_dir(&base).expect("a directory can be made");
    let lines = "# keys\nexport A=1 # one\nB='two # 2'\nC=\"x\\ny\\\"\"\n\nD=\nA=last\n";
    std::fs::write(base.join(".env"), lines).expect("a file can be written");
    std::fs::write(directory.path().join("outside"), "A=hush").expect("a file can be written");
    std::fs::write(base.join("large"), "#".repeat((64 << 10) + 1)).expect("a file can be written");
    let file = |name: &str| {
        format!(r#"{{"servers": {{"s": {{"command": "x", "envFile": "{name}", "env": {{"D": "d"}}}}}}}}"#)
    };
    let within = bare().base_dir(&base);
    check(&file(".env"), &within, &["s: x [] A=last B=two # 2 C=x\ny\" D=d"], &[]);
    let rows = [
        ("../outside", &within, "it lies outside the base directory: move it there"),
        (".", &within, "it is no file"),
        ("large", &within, "it is larger than 65536 bytes: shorten it"),
        (
            ".env",
            &bare(),
            "a file is read only below a directory of yours: name it with `ConfigOptions::base_dir`",
        ),
    ];
    for (name, options, words) in rows {
        refused(&file(name), options, &[&format!("server \"s\": `envFile`: {words}")]);
    }
    let wrong = [
        ("hush", "line 1 is not KEY=VALUE: correct it"),
        ("\n1A=hush", "line 2 has no name before `=`: correct it"),
        ("A=\"hush", "line 1 has a quote that does not end: close it"),
    ];
    for (text, words) in wrong {
        assert_eq!(env_file::variables(text), Err(words.to_owned()));
    }
}
