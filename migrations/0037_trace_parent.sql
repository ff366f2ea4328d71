-- Where a deployment stands in a trace (W3C Trace Context), for the spans of those who build, sign and load it. Programs of the
-- release before write and read none.
ALTER TABLE deployments ADD COLUMN trace_parent text;
ALTER TABLE deployments ADD CONSTRAINT deployments_trace_parent_form
    CHECK (trace_parent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$') NOT VALID;

GRANT INSERT (trace_parent) ON deployments TO mfaas_server;
