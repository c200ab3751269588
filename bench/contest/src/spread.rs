//! A figure over the rounds.

use std::fmt;

use lab::figures::median;

/// The middle, the lowest and the highest value of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// None where no round has the figure.
    pub(crate) fn of(values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().flatten().filter(|value| value.is_finite()).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        median(values).map(|median| Self { median, least, most })
    }
}

/// With as many digits as say something, and commas between thousands.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let Some(whole) = (digits == 0).then(|| text.trim_start_matches('-')) else { return text };
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if value < 0.0 { format!("-{grouped}") } else { grouped }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} – {})", number(self.median), number(self.least), number(self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_without_the_figure_are_left_out() {
        assert_eq!(Spread::of([None, Some(f64::NAN)]), None);
        let spread = Spread::of([Some(3.0), None, Some(1.0), Some(10.0)]).expect("three rounds");
        assert_eq!(spread, Spread { median: 3.0, least: 1.0, most: 10.0 });
        assert_eq!(spread.to_string(), "3.00 (1.00 – 10.0)");
    }

    #[test]
    fn numbers() {
        let check = |value: f64, expected: &str| assert_eq!(number(value), expected);
        check(0.456, "0.46");
        check(12.345, "12.3");
        check(123.4, "123");
        check(1_234_567.0, "1,234,567");
        check(-1234.0, "-1,234");
    }
}
