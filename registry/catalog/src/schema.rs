//! The schema of a live database as readable text, so that a test can compare it with
//! `migrations/schema.sql` without a program from outside.

use sqlx::Row as _;

use crate::{Catalog, CatalogError};

/// Tables, columns, constraints, indexes, triggers, functions and grants of the schema `public`.
///
/// The text is stable: sorted by name, one line a thing, no object ids.
pub async fn describe(catalog: &Catalog) -> Result<String, CatalogError> {
    let mut out = String::new();
    for table in names(catalog, TABLES).await? {
        out.push_str(&format!("CREATE TABLE {table} (\n"));
        let mut lines = about(catalog, COLUMNS, &table).await?;
        lines.extend(about(catalog, CONSTRAINTS, &table).await?);
        out.push_str(&lines.iter().map(|l| format!("    {l}")).collect::<Vec<_>>().join(",\n"));
        out.push_str("\n);\n");
        for query in [INDEXES, TRIGGERS, GRANTS, COLUMN_GRANTS] {
            for line in about(catalog, query, &table).await? {
                out.push_str(&format!("{line};\n"));
            }
        }
        out.push('\n');
    }
    for query in [SEQUENCES, FUNCTIONS] {
        for text in names(catalog, query).await? {
            out.push_str(&format!("{text};\n\n"));
        }
    }
    Ok(out.trim_end().to_owned() + "\n")
}

async fn names(catalog: &Catalog, query: &'static str) -> Result<Vec<String>, CatalogError> {
    let rows = sqlx::query(query).fetch_all(&catalog.pool).await?;
    Ok(rows.iter().map(|row| row.try_get("line")).collect::<Result<_, _>>()?)
}

async fn about(catalog: &Catalog, query: &'static str, table: &str) -> Result<Vec<String>, CatalogError> {
    let rows = sqlx::query(query).bind(table).fetch_all(&catalog.pool).await?;
    Ok(rows.iter().map(|row| row.try_get("line")).collect::<Result<_, _>>()?)
}

const TABLES: &str = "
    SELECT relname::text AS line FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> '_sqlx_migrations'
    ORDER BY relname";

const COLUMNS: &str = "
    SELECT a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
        || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
        || CASE a.attidentity WHEN 'a' THEN ' GENERATED ALWAYS AS IDENTITY' ELSE '' END
        || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '') AS line
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = ('public.' || $1)::regclass AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attnum";

const CONSTRAINTS: &str = "
    SELECT 'CONSTRAINT ' || conname || ' ' || pg_get_constraintdef(oid) AS line FROM pg_constraint
    WHERE conrelid = ('public.' || $1)::regclass AND contype <> 't' AND contype <> 'n' ORDER BY contype = 'p' DESC, conname";

const INDEXES: &str = "
    SELECT pg_get_indexdef(i.indexrelid) AS line FROM pg_index i
    WHERE i.indrelid = ('public.' || $1)::regclass
      AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid)
    ORDER BY 1";

const TRIGGERS: &str = "
    SELECT pg_get_triggerdef(oid) AS line FROM pg_trigger
    WHERE tgrelid = ('public.' || $1)::regclass AND NOT tgisinternal ORDER BY tgname";

const GRANTS: &str = "
    SELECT 'GRANT ' || string_agg(p.privilege_type, ', ' ORDER BY p.privilege_type) || ' ON ' || $1 || ' TO '
        || p.grantee AS line
    FROM (SELECT privilege_type, grantee::regrole::text AS grantee
          FROM pg_class, aclexplode(relacl) WHERE oid = ('public.' || $1)::regclass AND grantee <> relowner) p
    GROUP BY p.grantee ORDER BY p.grantee";

const COLUMN_GRANTS: &str = "
    SELECT 'GRANT ' || g.privilege_type || ' (' || string_agg(g.attname, ', ' ORDER BY g.attnum) || ') ON ' || $1
        || ' TO ' || g.grantee AS line
    FROM (SELECT a.attname, a.attnum, x.privilege_type, x.grantee::regrole::text AS grantee
          FROM pg_attribute a, aclexplode(a.attacl) x WHERE a.attrelid = ('public.' || $1)::regclass) g
    GROUP BY g.grantee, g.privilege_type ORDER BY g.grantee, g.privilege_type";

const SEQUENCES: &str = "
    SELECT 'CREATE SEQUENCE ' || s.relname || ' AS ' || format_type(q.seqtypid, NULL) || ' MINVALUE ' || q.seqmin
        || CASE WHEN q.seqcycle THEN ' CYCLE' ELSE ' NO CYCLE' END
        || coalesce((SELECT E';\nGRANT ' || string_agg(x.privilege_type || ' ON ' || s.relname || ' TO '
               || x.grantee::regrole::text, ', ' ORDER BY x.grantee::regrole::text)
               FROM aclexplode(s.relacl) x WHERE x.grantee <> s.relowner), '') AS line
    FROM pg_sequence q JOIN pg_class s ON s.oid = q.seqrelid
    WHERE s.relnamespace = 'public'::regnamespace
      AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = s.oid AND d.deptype = 'i')
    ORDER BY s.relname";

const FUNCTIONS: &str = "
    SELECT rtrim(pg_get_functiondef(p.oid), E'\n') AS line FROM pg_proc p
    WHERE p.pronamespace = 'public'::regnamespace ORDER BY p.proname";
