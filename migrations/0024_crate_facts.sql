-- What a list of crates shows of a report, taken out of it once: a report may have megabytes.
ALTER TABLE crate_reports
    ADD COLUMN unsafe_code text GENERATED ALWAYS AS (report #>> '{source,summary,unsafe}') STORED,
    ADD COLUMN geiger jsonb GENERATED ALWAYS AS (report #> '{source,summary,geiger}') STORED,
    ADD COLUMN compiler jsonb GENERATED ALWAYS AS (
        CASE WHEN report ? 'compiler' AND jsonb_typeof(report -> 'compiler') = 'object'
             THEN jsonb_set(report -> 'compiler', '{unsafe,spots}', '[]', false)
             ELSE report -> 'compiler' END
    ) STORED,
    ADD COLUMN kind jsonb GENERATED ALWAYS AS (report -> 'kind') STORED;
