//! A text with places that are filled in, such as `{name}`. A place that the text does not have is an error of the compiler.

pub(crate) struct Template<const N: usize> {
    text: &'static str,
    places: [&'static str; N],
}

impl<const N: usize> Template<N> {
    /// Takes the places as they stand in the text. Only for constants, where what is asserted is asserted while compiling.
    pub(crate) const fn new(text: &'static str, places: [&'static str; N]) -> Self {
        let mut nth = 0;
        while nth < N {
            assert!(has(text, places[nth]), "the text does not have this place");
            nth += 1;
        }
        Self { text, places }
    }

    /// The text with these values in the places. What a value holds is never taken for a place.
    pub(crate) fn fill(&self, values: [&str; N]) -> String {
        let mut filled = String::with_capacity(self.text.len());
        let mut rest = self.text;
        while let Some((at, nth)) = self.first(rest) {
            filled.push_str(&rest[..at]);
            filled.push_str(values[nth]);
            rest = &rest[at + self.places[nth].len()..];
        }
        filled + rest
    }

    fn first(&self, text: &str) -> Option<(usize, usize)> {
        (0..N).filter_map(|nth| Some((text.find(self.places[nth])?, nth))).min()
    }
}

const fn has(text: &str, place: &str) -> bool {
    let (text, place) = (text.as_bytes(), place.as_bytes());
    let mut at = 0;
    while at + place.len() <= text.len() {
        let mut same = 0;
        while same < place.len() && text[at + same] == place[same] {
            same += 1;
        }
        if same == place.len() {
            return true;
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_to_their_places() {
        let template = Template::new("{a} and {b}, {a} '{}'", ["{a}", "{b}"]);
        assert_eq!(template.fill(["1", "2"]), "1 and 2, 1 '{}'");
        assert_eq!(template.fill(["{b}", "{a}"]), "{b} and {a}, {b} '{}'");
    }

    #[test]
    fn a_place_is_found_or_missed() {
        for (text, place, expected) in [
            ("{a}", "{a}", true),
            ("x{{a}", "{a}", true),
            ("x {a", "{a}", false),
            ("{b}", "{a}", false),
            ("", "{a}", false),
        ] {
            assert_eq!(has(text, place), expected, "{text} {place}");
        }
    }

    #[test]
    #[should_panic(expected = "the text does not have this place")]
    fn a_text_without_a_place_is_refused() {
        let _ = Template::new("AND d.lost = 0", ["{lost}"]);
    }
}
