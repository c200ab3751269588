//! Patterns for event types: `invoice.*`, `*.created`, `customer.?`. `*` is any run of characters, `?` is one.

/// A pattern that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob(String);

impl Glob {
    const LEN_MAX: usize = 255;

    /// Reads a pattern; brackets and braces are refused, because people would expect them to work.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let plain = |c: char| !c.is_whitespace() && !c.is_control() && !"[]{}!\\".contains(c);
        let fits = (1..=Self::LEN_MAX).contains(&text.len());
        (fits && text.chars().all(plain)).then(|| Self(text.to_owned()))
    }

    /// True when the whole type fits the pattern.
    pub(crate) fn matches(&self, event_type: &str) -> bool {
        let (pattern, text): (Vec<char>, Vec<char>) = (self.0.chars().collect(), event_type.chars().collect());
        let (mut p, mut t) = (0, 0);
        // On a mismatch the last star takes one character more; earlier stars never need to be tried again.
        let mut star: Option<(usize, usize)> = None;
        while t < text.len() {
            match pattern.get(p) {
                Some('*') => {
                    star = Some((p, t));
                    p += 1;
                }
                Some(c) if *c == '?' || *c == text[t] => (p, t) = (p + 1, t + 1),
                _ => {
                    let Some((star_p, star_t)) = star else { return false };
                    star = Some((star_p, star_t + 1));
                    (p, t) = (star_p + 1, star_t + 1);
                }
            }
        }
        pattern[p..].iter().all(|c| *c == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, event_type, expected) in [
            ("invoice.*", "invoice.paid", Some(true)),
            ("invoice.*", "invoice", Some(false)),
            ("*", "", Some(true)),
            ("*.created", "customer.subscription.created", Some(true)),
            ("a*b*c", "aXbYbZc", Some(true)),
            ("a*b*c", "aXbYbZ", Some(false)),
            ("push", "push", Some(true)),
            ("push", "pushed", Some(false)),
            ("v?", "v1", Some(true)),
            ("v?", "v", Some(false)),
            ("*ü", "grün ü", Some(true)),
            ("", "", None),
            ("a b", "", None),
            ("[ab]", "", None),
            ("{a,b}", "", None),
        ] {
            assert_eq!(Glob::parse(pattern).map(|glob| glob.matches(event_type)), expected, "{pattern} {event_type}");
        }
    }
}
