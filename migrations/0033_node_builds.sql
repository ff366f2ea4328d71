-- The build of a node, as its latest report's request named it. Not in the report itself: servers and nodes of the release
-- before refuse a report with a field that they do not know.
ALTER TABLE node_reports
    ADD COLUMN build text CONSTRAINT node_reports_build_length CHECK (length(build) BETWEEN 1 AND 100);

GRANT INSERT (build), UPDATE (build) ON node_reports TO mfaas_server;
