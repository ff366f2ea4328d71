//! A table of HTML by a template in which elements are repeated and given attributes and contents.

mod template;

use mfaas::{Error, Json};
use serde::Deserialize;

use template::{Scope, Template};

const CELLS_MAX: usize = 100_000;

/// As the benchmark's template has it: a row for each number of `rows`, in it a cell for each of `columns`.
const TABLE: &str = r#"<table>
<tr repeat="row rows">
<td repeat="column columns"><span class="column-{column}" content="{row} &amp; {column}"></span></td>
</tr>
</table>
"#;

/// How large the table is.
#[derive(Debug, Deserialize)]
pub struct Query {
    rows: usize,
    columns: usize,
}

/// Takes `{"rows": 10, "columns": 3}`.
pub fn handle(Json(query): Json<Query>) -> Result<String, Error> {
    if query.rows.saturating_mul(query.columns) > CELLS_MAX {
        return Err(Error::new(format!("a table has at most {CELLS_MAX} cells")));
    }
    let template = Template::parse(TABLE)?;
    let mut scope = Scope::default();
    scope.set_list("rows", 0..query.rows);
    scope.set_list("columns", 1..query.columns + 1);
    let mut page = String::new();
    template.render(&mut scope, &mut page)?;
    Ok(page)
}
