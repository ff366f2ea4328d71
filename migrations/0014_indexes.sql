-- What programs look for by themselves, each second or with each deployment, is a few rows among a million.

CREATE INDEX deployments_built ON deployments (id) WHERE state = 'built';
CREATE INDEX deployments_waiting ON deployments (id) WHERE state = 'waiting';
-- The pages of a tenant.
CREATE INDEX deployments_by_tenant ON deployments (tenant, created_at DESC);
