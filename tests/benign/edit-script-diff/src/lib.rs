//! The shortest way from one list of words to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit<'a> {
    Keep(&'a str),
    Remove(&'a str),
    Add(&'a str),
}

struct Table {
    width: usize,
    cells: Vec<u32>,
}

impl Table {
    fn filled(old: &[&str], new: &[&str]) -> Self {
        let width = new.len() + 1;
        let mut table = Self { width, cells: vec![0; (old.len() + 1) * width] };
        for i in (0..old.len()).rev() {
            for j in (0..new.len()).rev() {
                let length = if old[i] == new[j] {
                    table.at(i + 1, j + 1) + 1
                } else {
                    table.at(i + 1, j).max(table.at(i, j + 1))
                };
                table.cells[i * width + j] = length;
            }
        }
        table
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.cells[i * self.width + j]
    }
}

fn diff<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Edit<'a>> {
    let table = Table::filled(old, new);
    let (mut i, mut j) = (0, 0);
    std::iter::from_fn(|| {
        let edit = match (old.get(i), new.get(j)) {
            (None, None) => return None,
            (Some(a), Some(b)) if a == b => Edit::Keep(a),
            (Some(a), None) => Edit::Remove(a),
            (Some(a), Some(_)) if table.at(i + 1, j) >= table.at(i, j + 1) => Edit::Remove(a),
            (_, Some(b)) => Edit::Add(b),
        };
        i += usize::from(!matches!(edit, Edit::Add(_)));
        j += usize::from(!matches!(edit, Edit::Remove(_)));
        Some(edit)
    })
    .collect()
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let Some((old, new)) = text.split_once("---") else { return b"OLD --- NEW".to_vec() };
    let [old, new] = [old, new].map(|side| side.split_whitespace().collect::<Vec<_>>());
    let edits = diff(&old, &new);
    let line = |edit: &Edit<'_>| match edit {
        Edit::Keep(word) => format!(" {word}\n"),
        Edit::Remove(word) => format!("-{word}\n"),
        Edit::Add(word) => format!("+{word}\n"),
    };
    let count = |wanted: fn(&Edit<'_>) -> bool| edits.iter().filter(|edit| wanted(edit)).count();
    let removed = count(|edit| matches!(edit, Edit::Remove(_)));
    let added = count(|edit| matches!(edit, Edit::Add(_)));
    let lines: String = edits.iter().map(line).collect();
    format!("{lines}{removed} removed, {added} added").into_bytes()
}
