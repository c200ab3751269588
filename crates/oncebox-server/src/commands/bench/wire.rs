//! A keep-alive HTTP/1.1 connection with as little between the load and the server as possible.

use std::net::SocketAddr;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// 200, `accepted`.
    Accepted,
    /// 200, `duplicate`.
    Duplicate,
    /// Another 2xx.
    Other,
    /// Anything else, with its status; 0 where that cannot be read.
    Failed(u16),
}

#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await;
        let stream = stream.with_context(|| format!("cannot connect to {address}; is the server running?"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096) })
    }

    /// Sends a request and waits for its whole answer.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<Said> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server closed the connection");
            }
            if let Some(said) = parse(&self.buffer)? {
                return Ok(said);
            }
        }
    }
}

/// Reads an answer; none while a part of it is missing.
fn parse(bytes: &[u8]) -> anyhow::Result<Option<Said>> {
    let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&bytes[..end]).context("the server's answer is no HTTP")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.context("the server's answer has no length")?;
    let body = &bytes[end + 4..];
    if body.len() < length {
        return Ok(None);
    }
    Ok(Some(match (status, body) {
        ("200", body) if body.starts_with(br#"{"status":"accepted""#) => Said::Accepted,
        ("200", body) if body.starts_with(br#"{"status":"duplicate""#) => Said::Duplicate,
        (status, _) if status.starts_with('2') => Said::Other,
        (status, _) => Said::Failed(status.parse().unwrap_or(0)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let check = |text: &str, expected: Option<Said>| {
            assert_eq!(parse(text.as_bytes()).expect("an answer"), expected, "{text}");
        };
        let accepted = "HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n{\"status\":\"accepted\"}";
        check(accepted, Some(Said::Accepted));
        check(&accepted[..55], None);
        check("HTTP/1.1 200 OK\r\nx: y", None);
        check("HTTP/1.1 200 OK\r\ncontent-length: 22\r\n\r\n{\"status\":\"duplicate\"}", Some(Said::Duplicate));
        check("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx", Some(Said::Other));
        check("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", Some(Said::Failed(503)));
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
