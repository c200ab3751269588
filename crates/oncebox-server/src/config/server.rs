//! `[server]` and `[log]`: the two listeners and what they hold at once.

use std::net::SocketAddr;
use std::time::Duration;

use oncebox_verify::Secret;

use super::reader::{Item, Table};
use super::secrets::{TOKEN_CURE, is_long_enough};
use super::{HOUR, web};

/// The smallest body limit: below it, real senders break.
pub(crate) const BODY_BYTES_MIN: usize = 64 << 10;
/// The largest body limit: bodies are held in memory.
pub(crate) const BODY_BYTES_MAX: usize = 64 << 20;

/// The body limit where nobody says otherwise.
pub(crate) const BODY_BYTES_DEFAULT: usize = 1 << 20;

const IN_FLIGHT_MAX: usize = 65_536;
const CONNECTIONS_MAX: usize = 1_048_576;
const PROXY_HOPS_MAX: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct ServerConfig {
    pub(crate) listen: SocketAddr,
    pub(crate) admin_listen: SocketAddr,
    pub(crate) admin_token: Option<Secret>,
    pub(crate) viewer_token: Option<Secret>,
    /// Names under which the admin listener is reached, beside `localhost` and plain addresses.
    pub(crate) admin_hosts: Vec<String>,
    /// How senders reach the public listener, without a slash at the end.
    pub(crate) public_url: Option<String>,
    /// What `oncebox send` needs to find the secrets, where `oncebox dev` made them.
    pub(crate) dev_option: Option<String>,
    /// The largest body in bytes, unless a source says otherwise.
    pub(crate) body_limit: usize,
    pub(crate) in_flight: usize,
    pub(crate) in_flight_bytes: usize,
    pub(crate) connections: usize,
    pub(crate) grace: Duration,
    pub(crate) workers: bool,
    /// How many hops of X-Forwarded-For to believe.
    pub(crate) trusted_proxies: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    Json,
    Text,
}

impl ServerConfig {
    pub(crate) fn read(mut table: Table<'_>) -> Self {
        let overrides = table.scope.outside.overrides;
        let listen_item = table.take("listen");
        let listen = address(listen_item.clone(), overrides.listen, 8080);
        let admin_item = table.take("admin_listen");
        let admin_listen = address(admin_item.clone(), overrides.admin_listen, 8081);
        let admin_token = match overrides.admin_token.clone().filter(|token| !token.is_blank()) {
            Some(token) => {
                table.take("admin_token");
                if !is_long_enough(&token) {
                    table.scope.problem("the admin token that was given is too short", TOKEN_CURE);
                }
                Some(token)
            }
            None => table.token("admin_token"),
        };
        if !admin_listen.ip().is_loopback()
            && admin_token.is_none()
            && !table.scope.report.mentions("server.admin_token")
        {
            let scope = admin_item.as_ref().map_or(&table.scope, |item| &item.scope);
            let cure = "set admin_token = { env = \"ONCEBOX_ADMIN_TOKEN\" }, or listen on 127.0.0.1";
            scope.problem(format!("{admin_listen} is reachable from other machines and needs a token"), cure);
        }
        // Port 0 asks the system for a free one, so two of them never meet.
        if listen == admin_listen && listen.port() != 0 {
            let scope = admin_item.as_ref().or(listen_item.as_ref()).map_or(&table.scope, |item| &item.scope);
            let cure = "give listen and admin_listen different ports, such as 8080 and 8081";
            scope.problem(format!("{listen} is the address of both listeners"), cure);
        }
        let server = Self {
            listen,
            admin_listen,
            admin_token,
            viewer_token: table.token("viewer_token"),
            admin_hosts: web::hosts(&mut table, "admin_hosts"),
            public_url: table.take("public_url").and_then(|item| web::public_url(&item)),
            dev_option: None,
            body_limit: table.size("body_limit", BODY_BYTES_MIN..=BODY_BYTES_MAX).unwrap_or(BODY_BYTES_DEFAULT),
            in_flight: table.count("in_flight", 1..=IN_FLIGHT_MAX).unwrap_or(1024),
            in_flight_bytes: table.size("in_flight_bytes", BODY_BYTES_MIN..=64 << 30).unwrap_or(256 << 20),
            connections: table.count("connections", 1..=CONNECTIONS_MAX).unwrap_or(4096),
            grace: table.duration("grace", Duration::from_secs(1)..=HOUR).unwrap_or(Duration::from_secs(20)),
            workers: table.flag("workers").unwrap_or(true),
            trusted_proxies: table.count("trusted_proxies", 0..=PROXY_HOPS_MAX).unwrap_or(0),
        };
        if server.in_flight_bytes < server.body_limit {
            table.scope.report.warn("server.in_flight_bytes is below server.body_limit: the largest bodies never fit");
        }
        table.finish();
        server
    }
}

impl LogFormat {
    pub(crate) fn read(mut table: Table<'_>) -> Self {
        let words = [("auto", Self::Auto), ("json", Self::Json), ("text", Self::Text)];
        let format = table.word("format", &words).unwrap_or(Self::Auto);
        table.finish();
        format
    }
}

/// Reads `127.0.0.1:8080`, `[::1]:8080` or `localhost:8080`.
pub(crate) fn parse_listen(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::from(([127, 0, 0, 1], port.parse().ok()?))),
        None => text.parse().ok(),
    }
}

fn address(item: Option<Item<'_>>, overridden: Option<SocketAddr>, port: u16) -> SocketAddr {
    let written = item.and_then(|item| item.parsed(parse_listen, "an address and port such as \"127.0.0.1:8080\""));
    overridden.or(written).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], port)))
}
