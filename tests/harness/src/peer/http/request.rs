//! Reads one HTTP/1.1 request, with bounds.

use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};
use tokio::time::timeout;

/// The longest head.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The longest body.
const BODY_BYTES_MAX: usize = 16 << 20;
/// How long a client may take for a request, counted from its first byte.
const REQUEST_WITHIN: Duration = Duration::from_secs(30);

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HttpRequest {
    pub(super) method: String,
    /// Path and query.
    pub(super) target: String,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl HttpRequest {
    /// A header by its name in any case.
    pub(super) fn header(&self, name: &str) -> Option<&String> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// A value of the query.
    pub(super) fn query(&self, name: &str) -> Option<&str> {
        let (_, query) = self.target.split_once('?')?;
        query.split('&').find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name)).map(|(_, v)| v)
    }
}

/// The next request; `None` when the client is gone, a status if there is none to be understood.
pub(super) async fn read<R: AsyncBufRead + Unpin>(read: &mut R) -> Result<Option<HttpRequest>, u16> {
    match read.fill_buf().await {
        Ok([]) | Err(_) => return Ok(None),
        Ok(_) => {}
    }
    timeout(REQUEST_WITHIN, request(read)).await.unwrap_or(Err(408))
}

async fn request<R: AsyncBufRead + Unpin>(read: &mut R) -> Result<Option<HttpRequest>, u16> {
    let mut left = HEAD_BYTES_MAX;
    let Some(first) = line(read, &mut left).await? else { return Ok(None) };
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next()) else {
        return Err(400);
    };
    if !version.starts_with("HTTP/1.") {
        return Err(505);
    }
    let mut headers = Vec::new();
    loop {
        let Some(text) = line(read, &mut left).await? else { return Ok(None) };
        if text.is_empty() {
            break;
        }
        let (name, value) = text.split_once(':').ok_or(400_u16)?;
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request =
        HttpRequest { method: method.to_owned(), target: target.to_owned(), headers, body: Vec::new() };
    request.body = body(read, &request).await?;
    Ok(Some(request))
}

/// One line of a head without its end; `None` at the end of the input.
async fn line<R: AsyncBufRead + Unpin>(read: &mut R, left: &mut usize) -> Result<Option<String>, u16> {
    let mut bytes = Vec::new();
    let most = *left as u64 + 1;
    let taken = read.take(most).read_until(b'\n', &mut bytes).await.map_err(|_| 400_u16)?;
    *left = left.checked_sub(taken).ok_or(431_u16)?;
    if bytes.pop() != Some(b'\n') {
        return Ok(None);
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    String::from_utf8(bytes).map(Some).map_err(|_| 400)
}

async fn body<R: AsyncBufRead + Unpin>(read: &mut R, request: &HttpRequest) -> Result<Vec<u8>, u16> {
    if request.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return chunked(read).await;
    }
    let Some(length) = request.header("content-length") else { return Ok(Vec::new()) };
    let length = length.parse::<usize>().map_err(|_| 400_u16)?;
    let mut body = Vec::new();
    piece(read, length, &mut body).await?;
    Ok(body)
}

async fn chunked<R: AsyncBufRead + Unpin>(read: &mut R) -> Result<Vec<u8>, u16> {
    let (mut body, mut left) = (Vec::new(), HEAD_BYTES_MAX);
    loop {
        let size = line(read, &mut left).await?.ok_or(400_u16)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| 400_u16)?;
        piece(read, size, &mut body).await?;
        let end = line(read, &mut left).await?;
        if size == 0 {
            return Ok(body);
        }
        if end.as_deref() != Some("") {
            return Err(400);
        }
        // The sizes of chunks are no part of what is bounded here: the body is.
        left = HEAD_BYTES_MAX;
    }
}

/// Grows with what comes, not with what is promised.
async fn piece<R: AsyncBufRead + Unpin>(read: &mut R, bytes: usize, body: &mut Vec<u8>) -> Result<(), u16> {
    if bytes > BODY_BYTES_MAX || body.len() + bytes > BODY_BYTES_MAX {
        return Err(413);
    }
    let taken = read.take(bytes as u64).read_to_end(body).await.map_err(|_| 400_u16)?;
    if taken == bytes { Ok(()) } else { Err(400) }
}
