//! A table whose columns line up on a terminal; numbers go to the right.
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

struct Table<'a> {
    rows: Vec<Vec<&'a str>>,
}

impl<'a> Table<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(';').collect()).collect();
        let Some(header) = rows.first() else { return Err("an empty table".into()) };
        match rows.iter().position(|row| row.len() != header.len()) {
            Some(at) => Err(format!("row {} has {} cells instead of {}", at + 1, rows[at].len(), header.len())),
            None => Ok(Self { rows }),
        }
    }

    fn column(&self, index: usize) -> impl Iterator<Item = &'a str> + Clone + use<'a, '_> {
        self.rows.iter().map(move |row| row[index])
    }

    fn width(&self, index: usize) -> usize {
        self.column(index).map(UnicodeWidthStr::width).max().unwrap_or(0)
    }

    fn is_number(&self, index: usize) -> bool {
        let mut cells = self.column(index).skip(1).peekable();
        cells.peek().is_some() && cells.all(|cell| cell.parse::<f64>().is_ok())
    }

    fn render(&self) -> Result<String, std::fmt::Error> {
        let columns = self.rows[0].len();
        let mut out = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            for (index, cell) in row.iter().enumerate() {
                let gap = " ".repeat(self.width(index) - cell.width());
                let (left, right) = if self.is_number(index) { (gap, String::new()) } else { (String::new(), gap) };
                write!(out, "| {left}{cell}{right} ")?;
            }
            out.push_str("|\n");
            if number == 0 {
                for index in 0..columns {
                    write!(out, "| {:-<width$} ", "", width = self.width(index))?;
                }
                out.push_str("|\n");
            }
        }
        Ok(out)
    }
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    match Table::parse(&text) {
        Ok(table) => table.render().unwrap_or_default().into_bytes(),
        Err(error) => (error + "\n").into_bytes(),
    }
}
