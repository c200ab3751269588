//! Which handlers an event concerns: sources and type globs. Pure.

use std::sync::Arc;

use crate::delivery::order::order_key;
use crate::event::Mark;
use oncebox_verify::BodyPointer;

/// One handler's wish.
#[derive(Clone, Debug)]
pub struct Route {
    /// The handler's name.
    pub handler: Arc<str>,
    /// The sources it listens to; empty means all.
    pub sources: Vec<String>,
    /// Type globs; empty means all.
    pub types: Vec<Glob>,
    /// For a handler that runs one at a time per key: where the key stands in the body.
    pub serial: Option<BodyPointer>,
}

/// What one handler will have to do for one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDelivery {
    /// The handler's name.
    pub handler: Arc<str>,
    /// The key within which its events run one at a time.
    pub order_key: Option<Mark>,
}

impl From<&str> for NewDelivery {
    fn from(handler: &str) -> Self {
        Self { handler: handler.into(), order_key: None }
    }
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
    pub fn deliveries_for(&self, source: &str, event_type: &str, body: &[u8]) -> Vec<NewDelivery> {
        let wanting = self.0.iter().filter(|route| route.wants(source, event_type));
        wanting.map(|route| route.new_delivery(body)).collect()
    }

    /// The handlers' names.
    pub fn handlers(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|route| &*route.handler)
    }

    /// The wish of one handler.
    pub fn of_handler(&self, handler: &str) -> Option<&Route> {
        self.0.iter().find(|route| &*route.handler == handler)
    }
}

impl Route {
    /// What the handler will have to do for an event with this body.
    pub fn new_delivery(&self, body: &[u8]) -> NewDelivery {
        let order_key = self.serial.as_ref().and_then(|pointer| pointer.read(body)).map(|value| order_key(&value));
        NewDelivery { handler: self.handler.clone(), order_key }
    }

    /// True when the handler wants events of this source and type.
    pub fn wants(&self, source: &str, event_type: &str) -> bool {
        let source_fits = self.sources.is_empty() || self.sources.iter().any(|one| one == source);
        source_fits && (self.types.is_empty() || self.types.iter().any(|glob| glob.matches(event_type)))
    }
}

/// A pattern for event types: `invoice.*`, `*.created`, `v?`. `*` is any run of characters, `?` is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    const LEN_MAX: usize = 255;

    /// Reads a pattern; brackets and braces are refused, because people would expect them to work.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |c: char| !c.is_whitespace() && !c.is_control() && !"[]{}!\\".contains(c);
        let fits = (1..=Self::LEN_MAX).contains(&text.len());
        (fits && text.chars().all(plain)).then(|| Self(text.to_owned()))
    }

    /// True when the whole type fits the pattern.
    pub fn matches(&self, event_type: &str) -> bool {
        let (glob, text) = (self.0.as_bytes(), event_type.as_bytes());
        let (mut g, mut t) = (0, 0);
        // On a mismatch the last star takes one byte more; earlier stars never need to be tried again.
        let mut star: Option<(usize, usize)> = None;
        while t < text.len() {
            match glob.get(g) {
                Some(b'*') => {
                    star = Some((g, t));
                    g += 1;
                }
                Some(b'?') => (g, t) = (g + 1, next_char(text, t)),
                Some(byte) if *byte == text[t] => (g, t) = (g + 1, t + 1),
                _ => {
                    let Some((star_g, star_t)) = star else { return false };
                    star = Some((star_g, star_t + 1));
                    (g, t) = (star_g + 1, star_t + 1);
                }
            }
        }
        glob[g..].iter().all(|byte| *byte == b'*')
    }
}

fn next_char(text: &[u8], at: usize) -> usize {
    let is_continuation = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    at + 1 + text[at + 1..].iter().take_while(|byte| is_continuation(byte)).count()
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
            ("gr?n", "grün", Some(true)),
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
