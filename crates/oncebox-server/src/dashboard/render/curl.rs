//! An event as a `curl` command that sends the same bytes again.
//!
//! Everything of the sender's is inside single quotes, where a shell reads nothing but the closing one.

use oncebox_verify::{SecretForm, Source};

/// Headers that curl writes itself, or that belong to one connection.
const LEFT_OUT: [&str; 7] =
    ["host", "content-length", "connection", "transfer-encoding", "accept-encoding", "expect", "keep-alive"];

/// A body beyond this is sent from a file.
const INLINE_BYTES_MAX: usize = 32 * 1024;

/// What proves who sends and is never stored: words of a shell with a variable for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proof {
    /// Stands behind the URL.
    behind_url: String,
    /// An option of curl.
    option: Option<String>,
}

impl Proof {
    /// What the requests of a source carry.
    pub(crate) fn of(source: &Source) -> Self {
        let description = source.description();
        let mut behind_url = String::new();
        if source.has_path_token() {
            behind_url.push_str("\"/$TOKEN\"");
        }
        if !description.sends_token() {
            return Self { behind_url, option: None };
        }
        if let Some(name) = description.credential_query() {
            behind_url.push_str(&format!("{}\"$SECRET\"", quoted(&format!("?{name}="))));
        }
        let option = match (description.token_header(), description.secret_form()) {
            (Some(_), Some(SecretForm::UserPassword)) => Some("--user \"$SECRET\"".to_owned()),
            (Some(name), _) => Some(format!("--header {}\"$SECRET\"", quoted(&format!("{name}: ")))),
            (None, _) => None,
        };
        Self { behind_url, option }
    }

    /// The variables that somebody has to set.
    pub(crate) fn variables(&self) -> Vec<&'static str> {
        let text = format!("{}{}", self.behind_url, self.option.as_deref().unwrap_or_default());
        ["TOKEN", "SECRET"].into_iter().filter(|name| text.contains(&format!("${name}"))).collect()
    }
}

/// The command; `body` is none where it is not text, and then comes from the file as which the page offers it.
pub(crate) fn command(
    url: &str,
    proof: &Proof,
    headers: &[(String, String)],
    body: Option<&str>,
    file: &str,
) -> String {
    let mut lines = vec![format!("curl --request POST {}{}", quoted(url), proof.behind_url)];
    lines.extend(proof.option.clone());
    let kept = headers.iter().filter(|(name, _)| !LEFT_OUT.contains(&name.to_ascii_lowercase().as_str()));
    lines.extend(kept.map(|(name, value)| format!("--header {}", quoted(&format!("{name}: {value}")))));
    lines.push(match body.filter(|body| is_inline(body)) {
        Some(body) => format!("--data-raw {}", quoted(body)),
        None => format!("--data-binary {}", quoted(&format!("@{file}"))),
    });
    lines.join(" \\\n  ")
}

/// True for a body that stands in the command itself.
pub(crate) fn is_inline(body: &str) -> bool {
    body.len() <= INLINE_BYTES_MAX && !body.contains('\0')
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use oncebox_verify::Secret;
    use oncebox_verify::SourceSpec;

    use super::*;

    fn check(headers: &[(&str, &str)], body: Option<&str>, expected: &[&str]) {
        let headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let command = command("http://127.0.0.1:8080/in/stripe", &Proof::default(), &headers, body, "key.bin");
        let lines: Vec<_> = command.split(" \\\n  ").skip(1).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_is_never_stored_has_to_be_filled_in() {
        for (provider, behind_url, option, variables) in [
            ("stripe", "", None, [].as_slice()),
            ("telegram", "", Some("--header 'x-telegram-bot-api-secret-token: '\"$SECRET\""), &["SECRET"]),
            ("basic-auth", "", Some("--user \"$SECRET\""), &["SECRET"]),
            ("mailchimp", "\"/$TOKEN\"", None, &["TOKEN"]),
        ] {
            let mut spec = SourceSpec::named("s", provider).expect("a provider");
            match spec.description.needs_path_token() {
                true => spec.path_token = Some(Secret::new("token")),
                false => spec.secrets = vec![Secret::new("user:password")],
            }
            let proof = Proof::of(&Source::build(spec).expect("a source"));
            assert_eq!((proof.behind_url.as_str(), proof.option.as_deref()), (behind_url, option), "{provider}");
            assert_eq!(proof.variables(), variables, "{provider}");
        }
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
