//! The names without a digest that rules of other hosts were written with.

use super::camel;

/// What may stand in front of the digits of a name that was cut.
const READABLE_MAX: usize = 55;

/// The digits that tell servers apart where a name was cut.
const DIGITS: usize = 7;

/// The legacy name of a server's tool: several tools may have one, and a renamed server's tools have others. Only policy
/// rules understand it.
///
/// `mcp__{camel(server)}__{camel(tool)}`, without the first part where that is empty; above 63 characters it is cut and
/// ends in digits that depend on the server's name.
///
/// ```
/// use pilothouse_rules::name::legacy_name;
/// assert_eq!(legacy_name("github", "search_issues"), "mcp__github__searchIssues");
/// ```
pub fn legacy_name(server_name: &str, tool: &str) -> String {
    let (server, tool) = (camel(server_name), camel(tool));
    let mut name = if server.is_empty() { format!("mcp__{tool}") } else { format!("mcp__{server}__{tool}") };
    if name.len() > super::WIRE_NAME_MAX {
        // All of it is ASCII, so every length is a character boundary.
        name.truncate(READABLE_MAX);
        name.truncate(name.trim_end_matches('_').len());
        name.push('_');
        name.push_str(&server_digits(server_name));
    }
    name
}

/// The server's and the tool's part of a legacy name, split at the last `__`. They help a person to read a rule and are
/// never an identity: a tool's part may hold `__` itself.
pub fn legacy_parts(name: &str) -> Option<(&str, &str)> {
    let (server, tool) = name.strip_prefix("mcp__")?.rsplit_once("__")?;
    (!server.is_empty() && !tool.is_empty()).then_some((server, tool))
}

/// 32-bit FNV-1a over UTF-16 units, the last seven digits in base 36.
fn server_digits(server_name: &str) -> String {
    let step = |hash: u32, unit: u16| (hash ^ u32::from(unit)).wrapping_mul(0x0100_0193);
    let mut hash = server_name.encode_utf16().fold(0x811c_9dc5, step);
    let mut digits = [0u8; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdefghijklmnopqrstuvwxyz"[(hash % 36) as usize];
        hash /= 36;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

#[cfg(test)]
mod tests;
