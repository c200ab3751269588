//! An event as a `curl` command that sends the same bytes again.
//!
//! Everything of the sender's is inside single quotes, where a shell reads nothing but the closing one.

/// Headers that curl writes itself, or that belong to one connection.
const LEFT_OUT: [&str; 7] =
    ["host", "content-length", "connection", "transfer-encoding", "accept-encoding", "expect", "keep-alive"];

/// A body beyond this is sent from a file.
const INLINE_BYTES_MAX: usize = 32 * 1024;

/// The command; `body` is none where it is not text, and then comes from the file as which the page offers it.
pub(super) fn command(url: &str, headers: &[(String, String)], body: Option<&str>, file: &str) -> String {
    let mut lines = vec![format!("curl --request POST {}", quoted(url))];
    let kept = headers.iter().filter(|(name, _)| !LEFT_OUT.contains(&name.to_ascii_lowercase().as_str()));
    lines.extend(kept.map(|(name, value)| format!("--header {}", quoted(&format!("{name}: {value}")))));
    lines.push(match body.filter(|body| is_inline(body)) {
        Some(body) => format!("--data-raw {}", quoted(body)),
        None => format!("--data-binary {}", quoted(&format!("@{file}"))),
    });
    lines.join(" \\\n  ")
}

/// True for a body that stands in the command itself.
pub(super) fn is_inline(body: &str) -> bool {
    body.len() <= INLINE_BYTES_MAX && !body.contains('\0')
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&str, &str)], body: Option<&str>, expected: &[&str]) {
        let headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let command = command("http://127.0.0.1:8080/in/stripe", &headers, body, "key.bin");
        let lines: Vec<_> = command.split(" \\\n  ").skip(1).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn commands() {
        check(
            &[("Host", "x"), ("content-type", "application/json")],
            Some("{}"),
            &["--header 'content-type: application/json'", "--data-raw '{}'"],
        );
        check(&[], None, &["--data-binary '@key.bin'"]);
        check(
            &[("a", "'; rm -rf / #")],
            Some("@/etc/passwd $(id) `id` 'x'"),
            &[r"--header 'a: '\''; rm -rf / #'", r"--data-raw '@/etc/passwd $(id) `id` '\''x'\'''"],
        );
        check(&[], Some(&"x".repeat(INLINE_BYTES_MAX + 1)), &["--data-binary '@key.bin'"]);
    }
}
