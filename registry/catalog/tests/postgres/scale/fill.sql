-- A catalog as it is after years: :functions functions with 100 versions each, many more with one, and what comes with
-- them.
-- Nothing here is read by a test; only how many rows there are, and how they are spread, matters.

SET session_replication_role = replica;
SET synchronous_commit = off;
SET client_min_messages = warning;
SELECT setseed(0.5);

CREATE FUNCTION digest_of(what text, i bigint) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN encode(sha256(convert_to(what || i, 'UTF8')), 'hex');

INSERT INTO toolchains (id, accepted, decided_by) VALUES (repeat('a', 64), true, 'seed');
INSERT INTO tenants (name) SELECT 't' || i FROM generate_series(0, 4999) i;

-- A few tenants have most of the functions; a tenth of the functions was deleted.
CREATE TABLE f AS SELECT i, 't' || floor(200 * power(random(), 3))::int AS tenant, 'f' || i AS name,
    CASE WHEN random() < 0.1 THEN now() - random() * interval '300 days' END AS gone
    FROM generate_series(1, :functions * 20) i;
UPDATE f SET tenant = 't0', gone = NULL WHERE i <= 20;
CREATE TABLE d AS SELECT f.i * 100 + n AS i, md5('d' || f.i * 100 + n)::uuid AS id, tenant, name, gone, n AS version,
    now() - random() * interval '700 days' AS at FROM f, generate_series(CASE WHEN i <= :functions THEN 1 ELSE 100 END, 100) n;

INSERT INTO functions (tenant, name, last_version, created_at, deleted_at)
    SELECT tenant, name, 100, now() - interval '700 days', gone FROM f;
INSERT INTO artifacts (digest, bytes, toolchain) SELECT digest_of('artifact', i), 4096, repeat('a', 64) FROM d;
INSERT INTO statements (digest, artifact, envelope, created_at)
    SELECT digest_of('statement', i), digest_of('artifact', i), repeat('e', 300), at FROM d;
INSERT INTO versions (tenant, function, version, deployment_id, artifact, statement, source_digest, handler, budget_us,
                      memory_bytes, toolchain, abi_version, policy_version, created_at, retired_at)
    SELECT tenant, name, version, id, digest_of('artifact', i), digest_of('statement', i), digest_of('source', i), 'handle',
           1000, 4194304, repeat('a', 64), 1, 1, at, gone FROM d;
INSERT INTO aliases (tenant, function, alias, version)
    SELECT tenant, name, alias, 100 FROM f, unnest(ARRAY['live', 'canary']) alias WHERE gone IS NULL;

-- Nearly all deployments have ended, and most of those were forgotten; some are on their way.
INSERT INTO deployments (id, tenant, function, idempotency_key, source_digest, source_bytes, submitted_by, state, version,
                         last_event, created_at, updated_at, forgotten_at)
    SELECT id, tenant, name, 'key' || i, digest_of('source', i), 2048, 'token', 'admitted', version, 2, at, at,
           CASE WHEN at < now() - interval '90 days' AND i % 1000 > 0 THEN now() END FROM d;
INSERT INTO deployments (id, tenant, function, idempotency_key, source_digest, source_bytes, submitted_by, state, version,
                         last_event, created_at, updated_at, forgotten_at)
    SELECT md5('r' || i)::uuid, tenant, name, 'refused' || i, digest_of('refused', i), 2048, 'token',
           CASE WHEN i % 10 = 0 THEN 'failed' ELSE 'refused' END, NULL, 2, at, at,
           CASE WHEN at < now() - interval '90 days' THEN now() END FROM d WHERE i % 5 = 0;
INSERT INTO deployments (id, tenant, function, idempotency_key, source_digest, source_bytes, submitted_by, state,
                         last_event, created_at, updated_at)
    SELECT md5('o' || i)::uuid, tenant, name, 'open' || i, digest_of('open', i), 2048, 'token',
           (ARRAY['received', 'received', 'building', 'built', 'waiting', 'waiting'])[1 + i % 6], 1, now(), now()
    FROM d WHERE i % 100 = 1;
INSERT INTO builds (deployment_id, attempt, lease_holder, lease_role, fencing_token, committed_token, claim, queued_at,
                    started_at, finished_at, tenant)
    SELECT id, 1, 'builder', 'mfaas_builder', 1, 1,
           CASE WHEN state IN ('admitted', 'built') THEN jsonb_build_object('artifact', digest_of('of', version)) END,
           created_at, created_at, updated_at, tenant
    FROM deployments WHERE state NOT IN ('received', 'building');
INSERT INTO builds (deployment_id, attempt, queued_at, tenant, not_before)
    SELECT id, 0, created_at, tenant, now() + interval '1 hour' FROM deployments WHERE state = 'received';
INSERT INTO builds (deployment_id, attempt, lease_holder, lease_role, lease_expires_at, fencing_token, queued_at, started_at,
                    tenant)
    SELECT id, 1, 'builder', 'mfaas_builder', now() + interval '1 hour', 1, created_at, now(), tenant
    FROM deployments WHERE state = 'building';
INSERT INTO deployment_events (deployment_id, seq, at, body)
    SELECT id, seq, created_at, jsonb_build_object('kind', 'state', 'state', state)
    FROM deployments, generate_series(1, last_event) seq WHERE forgotten_at IS NULL OR seq = last_event;

INSERT INTO audit_log (seq, at, role, actor, action, tenant, subject, detail, hash)
    SELECT row_number() OVER (), created_at, 'mfaas_server', 'token', action, tenant, id::text, '{}', repeat('0', 64)
    FROM deployments, unnest(ARRAY['deployment.received', 'build.built']) action;
UPDATE audit_head SET (seq, hash) = (SELECT max(seq), repeat('0', 64) FROM audit_log);

INSERT INTO tokens (id, tenant, name, secret_sha256, scopes, created_at, expires_at, revoked_at, person, vouched_by)
    SELECT md5('t' || i)::uuid, 't' || i % 200, 'token', digest_of('secret', i), '{read}', at, at + interval '8 hours', NULL,
           'p' || i % 500, 'provider'
    FROM (SELECT i, now() - random() * interval '90 days' AS at FROM generate_series(1, :functions * 20) i) made;
UPDATE tokens SET vouched_by = 'admin', expires_at = NULL WHERE created_at > now() - interval '9 days';
INSERT INTO join_tokens (secret_sha256, node, created_at, expires_at)
    SELECT digest_of('join', i), 'n' || i, now(), now() - random() * interval '89 days'
    FROM generate_series(1, :functions * 20) i;
INSERT INTO nodes (name, certificate_sha256) SELECT 'n' || i, digest_of('node', i) FROM generate_series(1, 200) i;
INSERT INTO node_reports (node, boot, sequence, epoch, body)
    SELECT name, gen_random_uuid(), 1, 1, '{}' FROM nodes;
INSERT INTO usage_boots (node, boot, sequence) SELECT node, boot, 1 FROM node_reports;
INSERT INTO usage_totals (node, boot, tenant, function, version, calls, cpu_ns, run_ns, queue_ns, kills)
    SELECT node, boot, tenant, name, 100, 1, 1, 1, 1, '{}' FROM node_reports CROSS JOIN LATERAL (
        SELECT * FROM f WHERE gone IS NULL ORDER BY md5(name || node) LIMIT 100) busy;
INSERT INTO usage_hours (hour, tenant, function, version, calls, cpu_ns, run_ns, run_ns_max, queue_ns, memory_bytes_max)
    SELECT date_trunc('hour', now(), 'UTC') - n * interval '1 hour', tenant, name, 100, 1, 1, 1, 1, 1, 1
    FROM f, generate_series(0, 240) n WHERE gone IS NULL AND (i + n) % 100 = 0;
INSERT INTO usage_kills (hour, tenant, function, version, reason, kills)
    SELECT hour, tenant, function, version, 'fault', 1 FROM usage_hours WHERE random() < 0.2;
-- As many as charts have points, of what was called in the last hour, day and month.
INSERT INTO series_calls (step_s, at, tenant, function, version, calls, cpu_ns, memory_bytes_max, runs)
    SELECT step_s, date_bin(make_interval(secs => step_s), now(), 'epoch') - make_interval(secs => step_s * n), tenant, name, 100,
           1, 1, 1, '{1}'
    FROM f, generate_series(0, 149) n, unnest(ARRAY[60, 900, 21600]) step_s WHERE gone IS NULL AND (i + n) % 40 = 0;
INSERT INTO series_tenants (step_s, at, tenant, calls, cpu_ns, memory_bytes_max, calls_left_out)
    SELECT step_s, at, tenant, 1, 1, 1, 0 FROM series_calls GROUP BY step_s, at, tenant;
INSERT INTO series_nodes (step_s, at, node, interval_ms, cpu_ns, cores, running_max, waiting_max, processes_max, pools_max,
                          pools_busy_max, resident_max, resident_bytes_max)
    SELECT step_s, date_bin(make_interval(secs => step_s), now(), 'epoch') - make_interval(secs => step_s * n), name,
           1, 1, 1, 1, 1, 1, 1, 1, 1, 1
    FROM nodes, generate_series(0, 149) n, unnest(ARRAY[60, 900, 21600]) step_s;
INSERT INTO isolation_samples (node, slot, at, body)
    SELECT name, slot, now() - make_interval(secs => 10 * slot), '{"protocol": 3}' FROM nodes, generate_series(0, 359) slot;
INSERT INTO series_builds (step_s, at, builds, queue_counts, build_counts)
    SELECT step_s, date_bin(make_interval(secs => step_s), now(), 'epoch') - make_interval(secs => step_s * n), 1, '{1}', '{1}'
    FROM generate_series(0, 149) n, unnest(ARRAY[60, 900, 21600]) step_s;
INSERT INTO function_logs (tenant, function, version, node, boot, line, at, level, text)
    SELECT tenant, name, 100, 'n1', md5(name)::uuid, n, now() - random() * interval '89 days', 'info', 'a line'
    FROM f, generate_series(1, 5) n;
INSERT INTO bans (told, tenant, function, version, artifact, node, crashes, lifted_at, lifted_by)
    SELECT gen_random_uuid(), tenant, name, version, digest_of('artifact', i), 'n' || 1 + i % 200, 3, now(), 'somebody'
    FROM d WHERE i % 20 = 3;
UPDATE bans SET lifted_at = NULL, lifted_by = NULL WHERE id % 100 = 0;
INSERT INTO revocations (artifact, reason, revoked_by, revoked_at)
    SELECT digest_of('artifact', i), 'crate', 'somebody', at FROM d WHERE i % 5 = 2;
INSERT INTO shards (digest, body, unused_since)
    SELECT digest_of('shard', i), repeat('s', 1000), CASE WHEN i % 500 = 0 THEN now() - random() * interval '1 hour' END
    FROM generate_series(1, :functions * 20) i;
INSERT INTO serving_sets (epoch, generation, digest, envelope, issued_at, expires_at)
    SELECT i, i, digest_of('set', i), 'set', now(), now() FROM generate_series(1, 100) i;
INSERT INTO key_lists (version, envelope) VALUES (1, 'list');
INSERT INTO call_tokens (id, tenant, caller, functions, issued_at, expires_at, key, issued_by)
    SELECT md5('c' || i)::uuid, 't' || i % 200, 'c' || i % 3000, '{pay}', at, at + interval '15 minutes', 'k', 'token'
    FROM (SELECT i, now() - random() * interval '90 days' AS at FROM generate_series(1, :functions * 40) i) made;
INSERT INTO call_revocations (tenant, caller, token, issued_until, ends_at, revoked_by)
    SELECT 't' || i % 200, 'c' || i % 3000, md5('c' || i)::uuid, at, at + interval '15 minutes', 'token'
    FROM (SELECT i, now() - random() * interval '90 days' AS at FROM generate_series(1, :functions * 20) i) made;
INSERT INTO call_keys (id, public_key, used_from, not_after)
    SELECT encode(sha256(decode(k, 'hex')), 'hex'), k, now(), now() + interval '1 day'
    FROM (SELECT digest_of('key', i) AS k FROM generate_series(1, 8) i) keys;
INSERT INTO builders (instance) SELECT 'builder' || i FROM generate_series(1, 20) i;

-- What tenants have asked for, and what people have decided.
INSERT INTO crate_archives (checksum, name, version, bytes)
    SELECT digest_of('crate', i), 'c' || i / 10, '1.0.' || i % 10, 1000 FROM generate_series(1, :functions * 20) i;
INSERT INTO crate_files (checksum, path, blob, bytes)
    SELECT checksum, 'src/' || n || '.rs', digest_of(checksum, n), 100 FROM crate_archives, generate_series(1, 5) n;
INSERT INTO crate_reports (key, checksum, report) SELECT digest_of(checksum, 0), checksum, '{}' FROM crate_archives;
INSERT INTO index_entries (name, version, decided, decided_as, archive, line, revision)
    SELECT name, version, checksum, name, checksum, '{}', 1 FROM crate_archives;
INSERT INTO crate_requests (deployment_id, tenant, name, requirement, features, code, status, requested_by)
    SELECT id, tenant, 'c' || i % 500, '1', '{}', 'MF0204', 'ready', 'p' || i % 500
    FROM (SELECT row_number() OVER () AS i, id, tenant FROM deployments WHERE state IN ('admitted', 'refused') LIMIT :functions * 40) a;
INSERT INTO crate_requests (deployment_id, tenant, name, requirement, features, code, status, requested_by)
    SELECT id, tenant, 'c1', '1', '{}', 'MF0204', 'reviewing', 'p1' FROM deployments WHERE state = 'waiting';
INSERT INTO reviews (name, version, checksum, features, toolchain, report, people, rules_revision, judgement, state, closed_at)
    SELECT name, version, checksum, '{}', repeat('a', 64), digest_of(checksum, 0), 1, 'r', '{}', state,
           CASE WHEN state <> 'open' THEN now() - random() * interval '700 days' END
    FROM (SELECT *, CASE WHEN random() < 0.01 THEN 'open' WHEN random() < 0.9 THEN 'approved' ELSE 'denied' END AS state
          FROM crate_archives) a;
INSERT INTO request_members (request_id, name, version, checksum, features, path, review_id)
    SELECT q.id, r.name, r.version, r.checksum, '{}', ARRAY[r.name], r.id
    FROM crate_requests q JOIN reviews r ON r.id = 1 + q.id % (:functions * 20);
INSERT INTO votes (review_id, person, approve, note, actor, token_id)
    SELECT id, 'p1', true, 'n', 'a', md5('t' || 1 + id % (:functions * 20))::uuid FROM reviews WHERE state <> 'open';
INSERT INTO spot_notes (review_id, spot, state, person)
    SELECT id, 'spot' || n, 'seen', 'p1' FROM reviews, generate_series(1, 3) n;
INSERT INTO crate_deltas (key, from_checksum, to_checksum, delta) SELECT digest_of(checksum, -1), checksum, checksum, '{}'
    FROM crate_archives;
INSERT INTO review_deltas (review_id, from_version, from_checksum, from_features, from_scope, decided_by, decided_at, delta)
    SELECT id, version, checksum, '{}', '', 'p1', now(), digest_of(checksum, -1) FROM reviews WHERE state <> 'open';
INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason, scope, toolchain, review_id)
    SELECT name, version, checksum, '{}', true, 'allowed', 'p1', 'r', CASE WHEN id % 2 = 0 THEN 't' || id % 200 ELSE '' END,
           toolchain, id FROM reviews WHERE state = 'approved' AND id <= 2000;
INSERT INTO version_crates (tenant, function, version, name, crate_version, checksum)
    SELECT tenant, name, version, 'c' || (i * 7 + n) % 500, '1.0.0', repeat('c', 64) FROM d, generate_series(1, 2) n
    ON CONFLICT DO NOTHING;
INSERT INTO resources (name, kind, created_by) SELECT 'r' || i, 'kv', 'operator' FROM generate_series(0, 8999) i;
-- A tenant has a few, and all of them have one.
INSERT INTO resource_grants (resource, tenant, access, granted_by)
    SELECT DISTINCT 'r' || CASE n WHEN 0 THEN 0 ELSE (i * 17 + n * 31) % 9000 END, 't' || i, 'read', 'operator'
    FROM generate_series(0, 4999) i, generate_series(0, 20) n;
INSERT INTO version_bindings (tenant, function, version, name, kind, resource, access)
    SELECT tenant, name, version, 'b' || n, 'kv', 'r' || (i * 7 + n) % 9000, 'read' FROM d, generate_series(1, 2) n
    WHERE i % 2 = 0;
INSERT INTO version_calls (tenant, function, version, name, callee)
    SELECT tenant, name, version, 'c' || n, 'f' || (i * 7 + n) % 9000 FROM d, generate_series(1, 2) n WHERE i % 2 = 1;
INSERT INTO schedules (tenant, function, name, cron, body, set_by, due_at)
    SELECT tenant, name, 's' || n, '0 3 * * *', 'body', 'p1', now() + interval '1 day' + i * interval '1 second'
    FROM (SELECT *, row_number() OVER (PARTITION BY tenant ORDER BY i) AS nth FROM f WHERE i % 40 = 1) f,
         generate_series(1, 2) n
    -- No tenant has as many as it may have.
    WHERE nth <= 100;
INSERT INTO triggers (tenant, function, name, id, resource, prefix, on_put, on_delete, set_by)
    SELECT tenant, name, 'watch', gen_random_uuid(), 'r' || i % 9000, 'in/', true, false, 'p1'
    FROM f WHERE i % 10 = 1 AND tenant <> 't0';
INSERT INTO dependency_caches (key, base, toolchain, lock, built_at)
    SELECT digest_of('cache', i), digest_of('base', i % 3), repeat('a', 64), 'lock', now() - (:functions - i) * interval '1 hour' FROM generate_series(1, :functions) i;
INSERT INTO cached_crates (cache, base, toolchain, name, version, checksum, closure)
    SELECT key, base, toolchain, 'c' || n, '1.0.' || id % 10, repeat('c', 64), '[]'
    FROM dependency_caches, generate_series(1, 100) n;
INSERT INTO build_claims (deployment_id, role, committed_token, claim, finished_at)
    SELECT deployment_id, role, 1, '{}', now() FROM builds, unnest(ARRAY['builder_a', 'builder_b']::name[]) role;

DROP TABLE f, d;
DROP FUNCTION digest_of;
ANALYZE;
