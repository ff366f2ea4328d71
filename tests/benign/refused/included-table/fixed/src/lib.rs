//! Looks words up in a table.
const TABLE: &str = "\
one=un
two=deux
three=trois
";

pub fn handle(request: &[u8]) -> Vec<u8> {
    let word = String::from_utf8_lossy(request);
    let found = TABLE.lines().filter_map(|line| line.split_once('=')).find(|(key, _)| *key == word);
    found.map_or("unknown", |(_, value)| value).as_bytes().to_vec()
}
