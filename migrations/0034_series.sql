-- What the console draws over time: calls by version, CPU time and memory by tenant, load by node, builds. Rows are those of the
-- charts: a minute, a quarter of an hour and six hours each, kept for 160 of their steps and shown for 150. Only what was called
-- has rows; what was charged stays in usage_hours, which these tables do not feed.

-- Counts by bucket, bucket by bucket; the longer one gives the length. Sums stop at the largest number instead of failing.
CREATE FUNCTION added_counts(a bigint[], b bigint[])
RETURNS bigint[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, public
AS $$
    SELECT coalesce(array_agg(least(coalesce(n.a, 0)::numeric + coalesce(n.b, 0), 9223372036854775807)::bigint ORDER BY n.i), '{}')
    FROM unnest(a, b) WITH ORDINALITY AS n (a, b, i)
$$;
REVOKE ALL ON FUNCTION added_counts(bigint[], bigint[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION added_counts(bigint[], bigint[]) TO mfaas_server;

-- What a node told of run times since its start, as kills are remembered: empty where it told nothing of them.
ALTER TABLE usage_totals ADD COLUMN runs bigint[] NOT NULL DEFAULT '{}';
GRANT INSERT (runs), UPDATE (runs) ON usage_totals TO mfaas_server;

-- Without a key to versions: the report was joined with them, and a lock on a version for each of its rows would be most of the
-- work. Rows are updated in place until their step is over.
CREATE TABLE series_calls (
    step_s           integer     NOT NULL CONSTRAINT series_calls_step_known CHECK (step_s IN (60, 900, 21600)),
    at               timestamptz NOT NULL CONSTRAINT series_calls_whole CHECK (extract(epoch FROM at) % step_s = 0),
    tenant           text        NOT NULL,
    function         text        NOT NULL,
    version          integer     NOT NULL,
    calls            bigint      NOT NULL,
    cpu_ns           bigint      NOT NULL,
    memory_bytes_max bigint      NOT NULL,
    runs             bigint[]    NOT NULL CONSTRAINT series_calls_runs_bounded CHECK (cardinality(runs) <= 21),
    CONSTRAINT series_calls_pkey PRIMARY KEY (tenant, function, step_s, at, version),
    CONSTRAINT series_calls_not_negative CHECK (least(calls, cpu_ns, memory_bytes_max) >= 0)
) WITH (fillfactor = 80);
CREATE INDEX series_calls_by_age ON series_calls (step_s, at);

CREATE TABLE series_tenants (
    step_s           integer     NOT NULL CONSTRAINT series_tenants_step_known CHECK (step_s IN (60, 900, 21600)),
    at               timestamptz NOT NULL CONSTRAINT series_tenants_whole CHECK (extract(epoch FROM at) % step_s = 0),
    tenant           text        NOT NULL,
    calls            bigint      NOT NULL,
    cpu_ns           bigint      NOT NULL,
    memory_bytes_max bigint      NOT NULL,
    -- Of versions beyond those of one report that get rows of their own.
    calls_left_out   bigint      NOT NULL,
    CONSTRAINT series_tenants_pkey PRIMARY KEY (step_s, at, tenant),
    CONSTRAINT series_tenants_not_negative CHECK (least(calls, cpu_ns, memory_bytes_max, calls_left_out) >= 0)
) WITH (fillfactor = 80);
CREATE INDEX series_tenants_of_one ON series_tenants (tenant, step_s, at);

CREATE TABLE series_nodes (
    step_s             integer     NOT NULL CONSTRAINT series_nodes_step_known CHECK (step_s IN (60, 900, 21600)),
    at                 timestamptz NOT NULL CONSTRAINT series_nodes_whole CHECK (extract(epoch FROM at) % step_s = 0),
    node               text        NOT NULL,
    -- Together: load is cpu_ns / (interval_ms * 1e6 * cores).
    interval_ms        bigint      NOT NULL,
    cpu_ns             bigint      NOT NULL,
    cores              integer     NOT NULL,
    running_max        bigint      NOT NULL,
    waiting_max        bigint      NOT NULL,
    processes_max      bigint      NOT NULL,
    pools_max          bigint      NOT NULL,
    pools_busy_max     bigint      NOT NULL,
    resident_max       bigint      NOT NULL,
    resident_bytes_max bigint      NOT NULL,
    CONSTRAINT series_nodes_pkey PRIMARY KEY (step_s, at, node),
    CONSTRAINT series_nodes_node_fkey FOREIGN KEY (node) REFERENCES nodes (name),
    CONSTRAINT series_nodes_not_negative CHECK (least(interval_ms, cpu_ns, cores, running_max, waiting_max, processes_max,
        pools_max, pools_busy_max, resident_max, resident_bytes_max) >= 0)
) WITH (fillfactor = 80);

-- Counts by the edges in note_ended_build, in milliseconds.
CREATE TABLE series_builds (
    step_s       integer     NOT NULL CONSTRAINT series_builds_step_known CHECK (step_s IN (60, 900, 21600)),
    at           timestamptz NOT NULL CONSTRAINT series_builds_whole CHECK (extract(epoch FROM at) % step_s = 0),
    builds       bigint      NOT NULL,
    queue_counts bigint[]    NOT NULL,
    build_counts bigint[]    NOT NULL,
    CONSTRAINT series_builds_pkey PRIMARY KEY (step_s, at)
) WITH (fillfactor = 80);

-- The database counts builds that end, whichever program ends them. One that was queued again after it had begun has no times:
-- its beginning is that of the build before.
CREATE FUNCTION note_ended_build()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
DECLARE
    edges_ms CONSTANT bigint[] := '{100,200,500,1000,2000,5000,10000,20000,30000,60000,120000,300000,600000,1200000,3600000}';
    queued   bigint[] := '{}';
    built    bigint[] := '{}';
BEGIN
    IF NEW.started_at >= NEW.queued_at THEN
        SELECT array_agg((b = bucket.queue)::int ORDER BY b), array_agg((b = bucket.build)::int ORDER BY b) INTO queued, built
        FROM generate_series(0, cardinality(edges_ms)) b, (
            SELECT count(*) FILTER (WHERE edge < extract(epoch FROM NEW.started_at - NEW.queued_at) * 1000) AS queue,
                   count(*) FILTER (WHERE edge < extract(epoch FROM NEW.finished_at - NEW.started_at) * 1000) AS build
            FROM unnest(edges_ms) edge) bucket;
    END IF;
    INSERT INTO series_builds AS s (step_s, at, builds, queue_counts, build_counts)
        SELECT step_s, date_bin(make_interval(secs => step_s), now(), 'epoch'), 1, queued, built
        FROM unnest(ARRAY[60, 900, 21600]) step_s ORDER BY step_s
        ON CONFLICT ON CONSTRAINT series_builds_pkey DO UPDATE SET builds = s.builds + 1,
            queue_counts = added_counts(s.queue_counts, excluded.queue_counts),
            build_counts = added_counts(s.build_counts, excluded.build_counts);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION note_ended_build() FROM PUBLIC;
CREATE TRIGGER builds_ended AFTER UPDATE OF finished_at ON builds FOR EACH ROW
    WHEN (OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL) EXECUTE FUNCTION note_ended_build();

-- Nothing goes that a chart shows.
CREATE FUNCTION check_series_old()
RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, public
AS $$
BEGIN
    IF program_of(current_user) <> '' AND OLD.at >= now() - make_interval(secs => 150 * OLD.step_s) THEN
        RAISE EXCEPTION '% may not delete this from %', program_of(current_user), TG_TABLE_NAME
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_deleted_when_old';
    END IF;
    RETURN OLD;
END $$;
REVOKE ALL ON FUNCTION check_series_old() FROM PUBLIC;
CREATE TRIGGER series_calls_old BEFORE DELETE ON series_calls FOR EACH ROW EXECUTE FUNCTION check_series_old();
CREATE TRIGGER series_tenants_old BEFORE DELETE ON series_tenants FOR EACH ROW EXECUTE FUNCTION check_series_old();
CREATE TRIGGER series_nodes_old BEFORE DELETE ON series_nodes FOR EACH ROW EXECUTE FUNCTION check_series_old();
CREATE TRIGGER series_builds_old BEFORE DELETE ON series_builds FOR EACH ROW EXECUTE FUNCTION check_series_old();

-- The server adds what nodes tell, and forgets what no chart shows any more. Of builds it tells nothing itself.
GRANT SELECT, DELETE ON series_calls, series_tenants, series_nodes, series_builds TO mfaas_server;
GRANT INSERT (step_s, at, tenant, function, version, calls, cpu_ns, memory_bytes_max, runs),
      UPDATE (calls, cpu_ns, memory_bytes_max, runs) ON series_calls TO mfaas_server;
GRANT INSERT (step_s, at, tenant, calls, cpu_ns, memory_bytes_max, calls_left_out),
      UPDATE (calls, cpu_ns, memory_bytes_max, calls_left_out) ON series_tenants TO mfaas_server;
GRANT INSERT (step_s, at, node, interval_ms, cpu_ns, cores, running_max, waiting_max, processes_max, pools_max, pools_busy_max,
              resident_max, resident_bytes_max),
      UPDATE (interval_ms, cpu_ns, cores, running_max, waiting_max, processes_max, pools_max, pools_busy_max, resident_max,
              resident_bytes_max) ON series_nodes TO mfaas_server;
