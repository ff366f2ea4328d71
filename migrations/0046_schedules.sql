-- Calls that the site makes by itself, at the times that a tenant says.
CREATE TABLE schedules (
    tenant     text        NOT NULL,
    function   text        NOT NULL,
    name       text        NOT NULL,
    -- Five fields as in crontab(5), in UTC, and what the function is sent.
    cron       text        NOT NULL,
    body       text        NOT NULL,
    set_at     timestamptz NOT NULL DEFAULT now(),
    set_by     text        NOT NULL,
    -- When the function is to be called next; null: never again.
    due_at     timestamptz,
    -- Calls that were begun, and times that passed while one was under way.
    runs       bigint      NOT NULL DEFAULT 0,
    skipped    bigint      NOT NULL DEFAULT 0,
    -- Of these calls, those that came to nothing good.
    failures   bigint      NOT NULL DEFAULT 0,
    -- The last one: for which time it was, when it began and ended. Without an end it is under way, or was lost with its server.
    run_due_at timestamptz,
    begun_at   timestamptz,
    ended_at   timestamptz,
    outcome    text,
    status     integer,
    code       text,
    CONSTRAINT schedules_pkey PRIMARY KEY (tenant, function, name),
    CONSTRAINT schedules_function_fkey FOREIGN KEY (tenant, function) REFERENCES functions (tenant, name),
    CONSTRAINT schedules_name_valid CHECK (name ~ '^[a-z][a-z0-9_-]{0,39}$'),
    CONSTRAINT schedules_cron_bounded CHECK (octet_length(cron) <= 100),
    CONSTRAINT schedules_body_bounded CHECK (octet_length(body) <= 16384),
    CONSTRAINT schedules_outcome_known CHECK (outcome IN ('answered', 'failed', 'unreachable', 'lost'))
);
CREATE INDEX schedules_by_due ON schedules (due_at);
GRANT SELECT, DELETE, INSERT (tenant, function, name, cron, body, set_by, due_at),
    UPDATE (cron, body, set_at, set_by, due_at, runs, skipped, failures, run_due_at, begun_at, ended_at, outcome, status, code)
    ON schedules TO mfaas_server;
