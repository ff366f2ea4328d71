//! A table's description to a Rust struct.
use heck::{ToKebabCase, ToPascalCase, ToShoutySnakeCase, ToSnakeCase};

struct Column {
    name: String,
    ty: &'static str,
}

struct Table {
    name: String,
    columns: Vec<Column>,
}

fn ty(name: &str) -> Option<&'static str> {
    Some(match name {
        "text" => "String",
        "int" => "i64",
        "float" => "f64",
        "bool" => "bool",
        _ => return None,
    })
}

fn parse(text: &str) -> Result<Table, String> {
    let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
    let name = lines
        .next()
        .and_then(|(_, line)| line.strip_prefix("table "))
        .ok_or("line 1: table NAME expected")?
        .to_owned();
    let columns = lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(n, line)| {
            let (name, kind) = line.split_once(':').ok_or_else(|| format!("line {n}: NAME: TYPE expected"))?;
            let kind = kind.trim();
            let ty = ty(kind).ok_or_else(|| format!("line {n}: unknown type {kind}"))?;
            Ok(Column { name: name.to_snake_case(), ty })
        })
        .collect::<Result<_, String>>()?;
    Ok(Table { name, columns })
}

fn generate(table: &Table) -> String {
    let mut out = format!("pub struct {} {{\n", table.name.to_pascal_case());
    for Column { name, ty } in &table.columns {
        out += &format!("    pub {name}: {ty},\n");
    }
    let constant = table.name.to_shouty_snake_case();
    out + &format!("}}\nconst {constant}: &str = \"{}\";\n", table.name.to_kebab_case())
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    match parse(&String::from_utf8_lossy(request)) {
        Ok(table) => generate(&table).into_bytes(),
        Err(error) => format!("{error}\n").into_bytes(),
    }
}
