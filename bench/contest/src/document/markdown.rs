//! Tables of Markdown.

/// A table whose first column is text and whose others are figures.
pub(crate) struct Markdown(String);

impl Markdown {
    pub(crate) fn new(header: &[&str]) -> Self {
        let mut table = Self(String::new());
        table.row(header.iter().map(|cell| (*cell).to_owned()));
        table.row((0..header.len()).map(|at| if at == 0 { "---" } else { "---:" }.to_owned()));
        table
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        self.0.push_str(&format!("| {} |\n", cells.join(" | ")));
    }

    pub(crate) fn text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table() {
        let mut table = Markdown::new(&["a", "b"]);
        table.row(["x".to_owned(), "1".to_owned()]);
        assert_eq!(table.text(), "| a | b |\n| --- | ---: |\n| x | 1 |\n");
    }
}
