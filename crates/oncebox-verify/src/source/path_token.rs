//! A token behind the source's name in the URL, for senders that cannot sign.

use subtle::ConstantTimeEq as _;

use crate::read::form::unescape;
use crate::secret::Secret;

/// A part of a path may hold the token as it is or with `%20` and the like; whether one of them fits takes no longer to
/// tell than that neither does.
pub(super) fn is_token(token: &Secret, given: &str) -> bool {
    let decoded = unescape(given.as_bytes(), false);
    bool::from(token.expose().ct_eq(given.as_bytes()) | token.expose().ct_eq(&decoded))
}

/// True for what a part of a path can hold: clients drop `.` and `..`, and control characters never arrive.
pub(super) fn fits_a_path(token: &Secret) -> bool {
    let bytes = token.expose();
    bytes != b"." && bytes != b".." && !bytes.iter().any(u8::is_ascii_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_may_be_written_with_percent_signs() {
        for (token, given, expected) in [
            ("p q", "p%20q", true),
            ("a/b", "a%2Fb", true),
            ("a/b", "a%2fb", true),
            ("ä", "%C3%A4", true),
            ("100%", "100%", true),
            ("100%", "100%25", true),
            ("a%20b", "a%20b", true),
            ("a%20b", "a%2520b", true),
            ("a+b", "a+b", true),
            ("a b", "a+b", false),
            ("p q", "p%2", false),
            ("p q", "p%2520q", false),
            ("%", "%zz", false),
        ] {
            assert_eq!(is_token(&Secret::new(token), given), expected, "{token} {given}");
        }
    }

    #[test]
    fn some_tokens_cannot_stand_in_a_url() {
        for (token, expected) in [("t0ken", true), ("p q/r", true), ("a\nb", false), ("\u{7f}", false), ("..", false)] {
            assert_eq!(fits_a_path(&Secret::new(token)), expected, "{token:?}");
        }
    }
}
