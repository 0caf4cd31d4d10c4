//! Reads HTTP responses: their events, and the start of a body that says what is wrong.

use std::error::Error;
use std::time::Duration;

use reqwest::Response;
use tokio::time::timeout;

pub(crate) mod sse;

/// What is read of a body that only says what is wrong (64 KiB).
const WORDS_MAX: usize = 64 << 10;
/// How long such a body is waited for.
const WORDS_WITHIN: Duration = Duration::from_secs(2);

/// Whether `https` can be spoken.
pub(crate) const HAS_TLS: bool =
    cfg!(any(feature = "rustls", feature = "native-tls", feature = "tls-no-provider"));

/// The start of a body that says what is wrong; what comes too late or not at all is left out.
pub(crate) async fn start(response: &mut Response) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = WORDS_MAX - body.len();
            body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
            if chunk.len() >= room {
                break;
            }
        }
    };
    // What has come until then is what there is.
    let _ = timeout(WORDS_WITHIN, read).await;
    body
}

/// The innermost cause of a failure, which alone shows no URL.
pub(crate) fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if std::ptr::eq(cause, error) { "it failed".to_owned() } else { cause.to_string() }
}
