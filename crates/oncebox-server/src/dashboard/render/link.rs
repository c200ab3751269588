//! Links to pages with filters in them, encoded so that no value can leave its place.

use percent_encoding::utf8_percent_encode;

use crate::http::UNRESERVED;

/// A path of ours with its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link(String);

impl Link {
    pub(crate) fn to(path: &str) -> Self {
        Self(path.to_owned())
    }

    /// A page that is named by one more part, whatever that part holds.
    pub(crate) fn below(path: &str, part: &str) -> Self {
        Self(format!("{path}/{}", utf8_percent_encode(part, UNRESERVED)))
    }

    /// The same with one more filter.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.push(if self.0.contains('?') { '&' } else { '?' });
        self.0.push_str(name);
        self.0.push('=');
        self.0.extend(utf8_percent_encode(value, UNRESERVED));
        self
    }

    /// The same with one more filter, where there is one.
    pub(crate) fn with_some(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_in_their_place() {
        let link = Link::to("/events").with("source", "a b&c=d").with_some("type", None).with("text", "\"><é");
        assert_eq!(link.to_string(), "/events?source=a%20b%26c%3Dd&text=%22%3E%3C%C3%A9");
        assert_eq!(Link::below("/sources", "../x?y#z").to_string(), "/sources/..%2Fx%3Fy%23z");
    }
}
