//! Which handlers an event concerns: sources and type globs. Pure.

use std::sync::Arc;

/// One handler's wish.
#[derive(Clone, Debug)]
pub struct Route {
    /// The handler's name.
    pub handler: Arc<str>,
    /// The sources it listens to; empty means all.
    pub sources: Vec<String>,
    /// Type globs; empty means all.
    pub types: Vec<String>,
}

/// All handlers' wishes, in the order of the config.
#[derive(Clone, Debug, Default)]
pub struct Routes(Vec<Route>);

impl Routes {
    /// Takes the wishes.
    pub fn new(routes: Vec<Route>) -> Self {
        Self(routes)
    }

    /// The handlers of an event. None is fine: the event is stored all the same.
    pub fn handlers_for<'a>(&'a self, source: &'a str, event_type: &'a str) -> impl Iterator<Item = &'a Arc<str>> {
        self.0.iter().filter(move |route| route.wants(source, event_type)).map(|route| &route.handler)
    }
}

impl Route {
    fn wants(&self, source: &str, event_type: &str) -> bool {
        let source_fits = self.sources.is_empty() || self.sources.iter().any(|one| one == source);
        source_fits && (self.types.is_empty() || self.types.iter().any(|glob| matches(glob, event_type)))
    }
}

/// `*` stands for any run of characters, everything else for itself. Linear in both: no backtracking beyond one star.
pub fn matches(glob: &str, text: &str) -> bool {
    let (glob, text) = (glob.as_bytes(), text.as_bytes());
    let (mut g, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if glob.get(g) == Some(&b'*') {
            star = Some((g, t));
            g += 1;
        } else if glob.get(g) == Some(&text[t]) {
            g += 1;
            t += 1;
        } else if let Some((star_g, star_t)) = star {
            (g, t) = (star_g + 1, star_t + 1);
            star = Some((star_g, star_t + 1));
        } else {
            return false;
        }
    }
    glob[g..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (glob, text, expected) in [
            ("*", "", true),
            ("invoice.*", "invoice.paid", true),
            ("invoice.*", "invoice", false),
            ("*.paid", "invoice.paid", true),
            ("in*.p*d", "invoice.paid", true),
            ("a*b*c", "a__b__", false),
            ("", "x", false),
            ("", "", true),
        ] {
            assert_eq!(matches(glob, text), expected, "{glob} on {text}");
        }
    }
}
