-- A large site, for the times of its pages: how many rows there are matters, and how they are spread.
SET session_replication_role = replica;
SET synchronous_commit = off;
SET client_min_messages = warning;

CREATE FUNCTION digest_of(what text, i bigint) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN encode(sha256(convert_to(what || i, 'UTF8')), 'hex');

INSERT INTO toolchains (id, accepted, decided_by) VALUES (repeat('a', 64), true, 'seed');
INSERT INTO tenants (name) SELECT 't' || i FROM generate_series(1, 99) i;
CREATE TABLE d AS SELECT f * 10 + v AS i, md5('d' || f * 10 + v)::uuid AS id, 't' || f % 100 AS tenant, 'f' || f AS name,
    v AS version, now() - (f * 10 + v) * interval '1 minute' AS at
    FROM generate_series(1, 10000) f, generate_series(1, 10) v;
INSERT INTO functions (tenant, name, last_version) SELECT tenant, name, 10 FROM d WHERE version = 10;
INSERT INTO artifacts (digest, bytes, toolchain) SELECT digest_of('artifact', i), 4096, repeat('a', 64) FROM d;
INSERT INTO statements (digest, artifact, envelope)
    SELECT digest_of('statement', i), digest_of('artifact', i), repeat('e', 300) FROM d;
INSERT INTO deployments (id, tenant, function, idempotency_key, source_digest, source_bytes, submitted_by, state, version,
                         last_event, created_at, updated_at)
    SELECT id, tenant, name, 'key' || i, digest_of('source', i), 2048, 'token', 'admitted', version, 9, at, at FROM d;
INSERT INTO builds (deployment_id, attempt, lease_holder, lease_role, fencing_token, committed_token, queued_at, started_at,
                    finished_at, tenant)
    SELECT id, 1, 'builder', 'mfaas_builder', 1, 1, at, at, at, tenant FROM d;
INSERT INTO deployment_events (deployment_id, seq, at, body)
    SELECT id, seq, at, jsonb_build_object('seq', seq, 'stage', 'compile', 'kind', 'finished', 'wall_ms', 900, 'cpu_ms', 800)
    FROM d, generate_series(1, 9) seq WHERE tenant = 't0';
INSERT INTO versions (tenant, function, version, deployment_id, artifact, statement, source_digest, handler, budget_us,
                      memory_bytes, toolchain, abi_version, policy_version, created_at)
    SELECT tenant, name, version, id, digest_of('artifact', i), digest_of('statement', i), digest_of('source', i), 'handle',
           1000, 4194304, repeat('a', 64), 1, 1, at FROM d;
INSERT INTO aliases (tenant, function, alias, version) SELECT tenant, name, 'live', 10 FROM d WHERE version = 10;
INSERT INTO function_logs (tenant, function, version, node, boot, line, at, level, text)
    SELECT tenant, name, 10, 'n1', md5(name)::uuid, n, at, 'info', 'a line of the function' FROM d, generate_series(1, 20) n
    WHERE version = 10;
INSERT INTO usage_hours (hour, tenant, function, version, calls, cpu_ns, run_ns, run_ns_max, queue_ns, memory_bytes_max)
    SELECT date_trunc('hour', now(), 'UTC') - n * interval '1 hour', tenant, name, 10, 1, 1, 1, 1, 1, 1
    FROM d, generate_series(0, 23) n WHERE version = 10 AND (i / 10 + n) % 24 = 0;
INSERT INTO nodes (name, certificate_sha256) SELECT 'n' || i, digest_of('node', i) FROM generate_series(1, 50) i;
-- Functions that are called now and then, and one that is called all the time; each step of an hour, a day and a month.
CREATE TABLE steps AS SELECT step_s, n, date_bin(make_interval(secs => step_s), now(), 'epoch') - make_interval(secs => step_s * n) AS at
    FROM unnest(ARRAY[60, 900, 21600]) step_s, generate_series(0, 149) n;
INSERT INTO series_calls (step_s, at, tenant, function, version, calls, cpu_ns, memory_bytes_max, runs)
    SELECT step_s, at, tenant, name, version, 100, 1000000, 65536, ARRAY[0, 40, 30, 20, 9, 1]
    FROM d, steps WHERE version = 10 AND (i / 10 + n) % 15 = 0 OR name = 'f100';
INSERT INTO series_tenants (step_s, at, tenant, calls, cpu_ns, memory_bytes_max, calls_left_out)
    SELECT step_s, at, 't' || t, 100, 1000000 * t, 65536, 0 FROM steps, generate_series(0, 99) t;
INSERT INTO series_nodes (step_s, at, node, interval_ms, cpu_ns, cores, running_max, waiting_max, processes_max, pools_max,
                          pools_busy_max, resident_max, resident_bytes_max)
    SELECT step_s, at, name, step_s * 1000, step_s * 500000000::bigint, 2, 1, 0, 20, 10, n % 10, 200, 20000000 FROM steps, nodes;
INSERT INTO series_builds (step_s, at, builds, queue_counts, build_counts)
    SELECT step_s, at, 10, '{5,3,2}', '{0,0,0,0,5,4,1}' FROM steps;
INSERT INTO audit_log (seq, at, role, actor, action, tenant, subject, detail, hash)
    SELECT (SELECT seq FROM audit_head) + row_number() OVER (), at, 'mfaas_server', 'token', 'deployment.received', tenant, id::text, '{}', repeat('0', 64)
    FROM d;
UPDATE audit_head SET (seq, hash) = (SELECT max(seq), repeat('0', 64) FROM audit_log);

-- A version is built with ten of the crates; a report has some hundred kilobytes, most of which no list shows.
INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
    SELECT 'c' || i, '1.0.0', digest_of('crate', i), '{std}', true, 'allowed', 'seed', 'shipped' FROM generate_series(1, 500) i;
INSERT INTO crate_archives (checksum, name, version, bytes) SELECT checksum, name, version, 100000 FROM crates;
INSERT INTO crate_reports (key, checksum, report)
    SELECT checksum, checksum, jsonb_build_object(
        'source', jsonb_build_object(
            'files', (SELECT jsonb_agg(digest_of(checksum, n)) FROM generate_series(1, 2000) n),
            'summary', jsonb_build_object('unsafe', 'counted', 'geiger', '{"functions": {"safe": 1, "unsafe": 0},
                "exprs": {"safe": 1, "unsafe": 7}, "impls": {"safe": 1, "unsafe": 0}, "traits": {"safe": 1, "unsafe": 0},
                "methods": {"safe": 1, "unsafe": 0}}'::jsonb)),
        'compiler', 'clean',
        'kind', '{"proc_macro": false, "build_script": true, "links": null, "edition": "2021"}'::jsonb)
    FROM crates;
INSERT INTO version_crates (tenant, function, version, name, crate_version, checksum)
    SELECT tenant, d.name, d.version, 'c' || 1 + (i + n * 7) % 500, '1.0.0', digest_of('crate', 1 + (i + n * 7) % 500)
    FROM d, generate_series(0, 9) n;

-- c100 needs 58 crates, each two more; c300 needs more than a graph draws.
INSERT INTO cached_crates (cache, base, toolchain, name, version, checksum, closure)
    SELECT repeat('b', 64), repeat('b', 64), repeat('a', 64), c.name, c.version, c.checksum, coalesce((
        SELECT jsonb_agg(jsonb_build_object('name', n.name, 'version', n.version, 'checksum', n.checksum) ORDER BY n.name)
        FROM crates n, LATERAL (SELECT substr(c.name, 2)::int - 99 AS k, substr(n.name, 2)::int - 99 AS m) numbers
        WHERE k BETWEEN 1 AND 59 AND m BETWEEN 1 AND 59 AND EXISTS (SELECT 1 FROM generate_series(1, 6) s WHERE m >> s = k)
           OR k = 201 AND m BETWEEN 202 AND 301), '[]')
    FROM crates c;

CREATE VIEW filled AS SELECT
    (SELECT count(*) FROM functions) || ' functions, ' || (SELECT count(*) FROM versions) || ' versions, '
    || (SELECT count(*) FROM crates) || ' crates, ' || (SELECT count(*) FROM version_crates) || ' uses of crates, '
    || (SELECT count(*) FROM series_calls) || ' steps of functions at '
    || (SELECT pg_total_relation_size('series_calls') / count(*) FROM series_calls) || ' bytes' AS what;
ANALYZE;
