//! Charts as SVG, drawn on the server: classes and attributes only, so that no policy has to be loosened for them.
//!
//! Pure: values in, markup out. Every text in a chart is ours or escaped.

use std::fmt::Write as _;

use askama::filters::HtmlSafe;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 160.0;
const LEFT: f64 = 54.0;
const BOTTOM: f64 = 18.0;
const TOP: f64 = 8.0;

/// Markup of a chart that was drawn here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Drawing(String);

impl HtmlSafe for Drawing {}

impl std::fmt::Display for Drawing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One layer of a stacked chart, or one line: a name that is also its class.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    /// What the legend and the class say; a word of ours.
    pub(crate) name: &'static str,
    /// One value per column, oldest first.
    pub(crate) values: Vec<f64>,
}

/// What stands around the values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labels<'a> {
    /// For those who cannot see it.
    pub(crate) title: &'a str,
    /// At the left and the right end of the time axis.
    pub(crate) ends: (&'a str, &'a str),
    /// Behind the values of the other axis.
    pub(crate) unit: &'a str,
}

/// Columns stacked from several series.
pub(crate) fn columns(series: &[Series], labels: Labels<'_>) -> Drawing {
    let count = series.iter().map(|one| one.values.len()).max().unwrap_or_default();
    let total = |column: usize| series.iter().map(|one| value(one, column)).sum::<f64>();
    let top = ceiling((0..count).map(total).fold(0.0, f64::max));
    let mut svg = frame(labels, top);
    let step = (WIDTH - LEFT) / count.max(1) as f64;
    for column in 0..count {
        let mut base = 0.0;
        for one in series {
            let height = value(one, column);
            if height <= 0.0 {
                continue;
            }
            let (from, to) = (y(base, top), y(base + height, top));
            let _infallible = write!(
                svg,
                r#"<rect class="s-{}" x="{:.1}" y="{to:.1}" width="{:.1}" height="{:.1}"><title>{}: {}{}</title></rect>"#,
                one.name,
                LEFT + step * column as f64,
                (step - 1.0).max(0.5),
                (from - to).max(1.0),
                one.name,
                short(height),
                escape(labels.unit),
            );
            base += height;
        }
    }
    finish(svg)
}

/// One line per series, over the same columns.
pub(crate) fn lines(series: &[Series], labels: Labels<'_>) -> Drawing {
    let count = series.iter().map(|one| one.values.len()).max().unwrap_or_default();
    let top =
        ceiling(series.iter().flat_map(|one| &one.values).copied().filter(|one| one.is_finite()).fold(0.0, f64::max));
    let mut svg = frame(labels, top);
    let step = (WIDTH - LEFT) / count.max(2).saturating_sub(1) as f64;
    for one in series {
        // A gap in the values is a gap in the line.
        let mut path = String::new();
        let mut pen_down = false;
        for (column, value) in one.values.iter().enumerate() {
            if !value.is_finite() {
                pen_down = false;
                continue;
            }
            let (x, y) = (LEFT + step * column as f64, y(*value, top));
            // A point of its own has no length; the zero step lets its round ends be drawn.
            let _infallible = if pen_down { write!(path, "L{x:.1} {y:.1}") } else { write!(path, "M{x:.1} {y:.1}h0") };
            pen_down = true;
        }
        let _infallible = write!(svg, r#"<path class="l-{}" d="{path}"><title>{}</title></path>"#, one.name, one.name);
    }
    finish(svg)
}

fn value(series: &Series, column: usize) -> f64 {
    series.values.get(column).copied().filter(|value| value.is_finite()).unwrap_or_default().max(0.0)
}

fn y(value: f64, top: f64) -> f64 {
    HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value / top)
}

/// The next round number: one, two or five with zeros.
fn ceiling(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let size = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * size).find(|step| *step >= value).unwrap_or(value)
}

fn frame(labels: Labels<'_>, top: f64) -> String {
    let title = escape(labels.title);
    let mut svg = format!(r#"<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>{title}</title>"#);
    for part in [0.0, 0.5, 1.0] {
        let line = y(top * part, top);
        let text = format!("{}{}", short(top * part), escape(labels.unit));
        let _infallible = write!(
            svg,
            r#"<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{line:.1}" y2="{line:.1}"/><text class="axis end" x="{:.1}" y="{:.1}">{text}</text>"#,
            LEFT - 6.0,
            line + 4.0,
        );
    }
    let floor = HEIGHT - 4.0;
    let (left, right) = (escape(labels.ends.0), escape(labels.ends.1));
    let _infallible = write!(
        svg,
        r#"<text class="axis" x="{LEFT}" y="{floor}">{left}</text><text class="axis end" x="{WIDTH}" y="{floor}">{right}</text>"#
    );
    svg
}

fn finish(mut svg: String) -> Drawing {
    svg.push_str("</svg>");
    Drawing(svg)
}

/// A number in at most a handful of characters.
fn short(value: f64) -> String {
    let text = match value {
        1_000_000.0.. => format!("{:.1}M", value / 1_000_000.0),
        10_000.0.. => format!("{:.0}k", value / 1_000.0),
        1_000.0.. => format!("{:.1}k", value / 1_000.0),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        10.0.. => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    };
    text.replace(".0M", "M").replace(".0k", "k")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: Labels<'_> = Labels { title: "arrivals <b>", ends: ("an hour ago", "now"), unit: "" };

    #[test]
    fn columns_are_stacked_and_scaled_to_a_round_number() {
        let series = [
            Series { name: "accepted", values: vec![10.0, 0.0, 30.0] },
            Series { name: "duplicate", values: vec![5.0, 0.0, 10.0] },
        ];
        let svg = columns(&series, LABELS).to_string();
        assert_eq!(svg.matches("<rect").count(), 4, "nothing is drawn for nothing: {svg}");
        assert!(svg.contains(">50<") && svg.contains(">25<"), "{svg}");
        assert!(svg.contains("arrivals &lt;b&gt;") && !svg.contains("style="), "{svg}");
    }

    #[test]
    fn a_gap_in_the_values_is_a_gap_in_the_line() {
        let svg = lines(&[Series { name: "p50", values: vec![1.0, 2.0, f64::NAN, 1.0] }], LABELS).to_string();
        assert_eq!(svg.matches('M').count(), 2, "{svg}");
        assert!(!svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn nothing_at_all_is_an_empty_frame() {
        for svg in [columns(&[], LABELS), lines(&[], LABELS)] {
            let svg = svg.to_string();
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>") && !svg.contains("NaN") && !svg.contains("inf"));
        }
    }

    #[test]
    fn odd_values_draw_nothing_odd() {
        let values = vec![f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -1.0, 1e300];
        let svg = columns(&[Series { name: "held", values }], LABELS).to_string();
        assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
    }

    #[test]
    fn ceilings() {
        for (value, expected) in [(0.0, 1.0), (0.3, 0.5), (1.0, 1.0), (7.0, 10.0), (45.0, 50.0), (101.0, 200.0)] {
            assert!((ceiling(value) - expected).abs() < 1e-9, "{value}");
        }
    }
}
