//! One database with all its roles, and things that tests put into it.

use std::time::Duration;

use mfaas_attest::{BuildClaim, Declared, SandboxLevel};
use mfaas_catalog::{
    Actor, Catalog, CatalogError, ClaimedBuild, Deployment, NewDeployment, NewToken, QueueLimits, Recorded,
    RolePasswords, Token, migrate,
};
use mfaas_ident::{
    Budget, DeploymentId, Digest, FunctionName, HandlerPath, MemoryLimit, PersonName, Role, TenantName,
    ToolchainId, VersionNumber,
};
use mfaas_rules::POLICY_REVISION;
use mfaas_rules::profiles::lints;
use sqlx::PgPool;

use mfaas_test_postgres::{Cluster, OWNER};

/// A lease that does not end within a test.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A migrated database, as each role sees it.
pub(crate) struct World {
    /// As the server.
    pub(crate) server: Catalog,
    /// As a builder.
    pub(crate) builder: Catalog,
    /// As the acquirer.
    pub(crate) acquirer: Catalog,
    /// As the owner, for the invariant checker and for damage.
    pub(crate) owner: Catalog,
    /// Raw connections of the owner.
    pub(crate) sql: PgPool,
    /// Name of the database.
    pub(crate) database: String,
}

/// Migrates a database of the common cluster. Roles belong to all of it; two databases must not change them at once.
pub(crate) async fn migrate_alone(url: &str, passwords: &RolePasswords) {
    static MIGRATING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _one = MIGRATING.lock().await;
    migrate(url, passwords).await.unwrap();
}

/// A migrated database to which nobody is connected: each world's is a copy of it.
async fn migrated() -> &'static str {
    static MIGRATED: tokio::sync::OnceCell<String> = tokio::sync::OnceCell::const_new();
    MIGRATED
        .get_or_init(async || {
            let database = Cluster::get().create_database();
            let password = || Some("it's a \"secret\"".to_owned());
            let passwords = RolePasswords {
                server: password(),
                builder: password(),
                signer: password(),
                acquirer: password(),
            };
            migrate_alone(&Cluster::get().url(&database, OWNER), &passwords).await;
            database
        })
        .await
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::of(Cluster::get().copy_database(migrated().await)).await
    }

    /// The same database through connections that begin now.
    pub(crate) async fn again(&self) -> Self {
        Self::of(self.database.clone()).await
    }

    async fn of(database: String) -> Self {
        let cluster = Cluster::get();
        let connect = async |user: &str| Catalog::connect(&cluster.url(&database, user), 8).await.unwrap();
        Self {
            server: connect("mfaas_server").await,
            builder: connect("mfaas_builder").await,
            acquirer: connect("mfaas_acquirer").await,
            owner: connect(OWNER).await,
            sql: PgPool::connect(&cluster.url(&database, OWNER)).await.unwrap(),
            database,
        }
    }

    /// A pool of raw connections with a role.
    pub(crate) async fn raw(&self, role: &str) -> PgPool {
        PgPool::connect(&Cluster::get().url(&self.database, role)).await.unwrap()
    }

    /// Records an upload of `tenant` for `function` with these bytes.
    pub(crate) async fn upload(&self, function: &str, key: &str, bytes: &[u8]) -> Deployment {
        self.upload_of(&tenant(), function, key, bytes).await
    }

    /// The same of another tenant.
    pub(crate) async fn upload_of(
        &self,
        tenant: &TenantName,
        function: &str,
        key: &str,
        bytes: &[u8],
    ) -> Deployment {
        let function = FunctionName::parse(function).unwrap();
        self.server.ensure_tenant(&actor(), tenant).await.unwrap();
        let new = NewDeployment {
            trace_parent: None,
            tenant,
            function: &function,
            person: &person("acme/ci"),
            idempotency_key: key,
            source_digest: Digest::of(bytes),
            source_bytes: bytes.len() as u64,
        };
        match record(&self.server, &new).await.unwrap() {
            Recorded::Created(deployment) => deployment,
            Recorded::Repeated(_) => panic!("the key {key} was used before"),
        }
    }

    /// A token with which a person reviews.
    pub(crate) async fn reviewer(&self, who: &str) -> Token {
        self.server.create_token(&actor(), &reviewing(&person(who))).await.unwrap()
    }

    /// The same for somebody whom the OpenID provider names.
    pub(crate) async fn signed_in(&self, who: &str) -> Token {
        let expires_at = Some(chrono::Utc::now() + chrono::TimeDelta::hours(1));
        let (person, secret_sha256) = (person(who), secret());
        let new = NewToken { expires_at, secret_sha256, ..reviewing(&person) };
        self.server.create_provider_token(&actor(), &new).await.unwrap()
    }

    /// Claims the next build as `instance`.
    pub(crate) async fn claim(&self, instance: &str) -> ClaimedBuild {
        self.builder.claim(instance, LONG).await.unwrap().expect("there is a build to claim")
    }

    /// Uploads, builds and admits a version without the signer's cryptography.
    pub(crate) async fn admitted(&self, function: &str, key: &str) -> VersionNumber {
        let deployment = self.upload(function, key, key.as_bytes()).await;
        let claimed = self.claim("one").await;
        assert_eq!(claimed.lease.deployment(), deployment.id);
        self.builder.finish_built(&claimed.lease, &claim(key.as_bytes())).await.unwrap();
        self.admit(deployment.id, Digest::of(key.as_bytes())).await
    }

    /// What the signer's transaction does, as the signer's role.
    pub(crate) async fn admit(&self, id: DeploymentId, artifact: Digest) -> VersionNumber {
        let signer = self.raw("mfaas_signer").await;
        let mut tx = signer.begin().await.unwrap();
        let version: i32 = sqlx::query_scalar(
            "INSERT INTO functions (tenant, name, last_version)
             SELECT tenant, function, 1 FROM deployments WHERE id = $1
             ON CONFLICT ON CONSTRAINT functions_pkey DO UPDATE
             SET last_version = functions.last_version + 1, deleted_at = NULL RETURNING last_version",
        )
        .bind(id.0)
        .fetch_one(&mut *tx)
        .await
        .unwrap();
        let statements = [
            "INSERT INTO artifacts (digest, bytes, toolchain) VALUES ($3, 4, repeat('a', 64))
             ON CONFLICT ON CONSTRAINT artifacts_pkey DO NOTHING",
            "INSERT INTO statements (digest, artifact, envelope) VALUES (encode(sha256($1::text::bytea), 'hex'), $3, 'unsigned')",
            "INSERT INTO versions (tenant, function, version, deployment_id, artifact, statement, source_digest,
                 handler, budget_us, memory_bytes, toolchain, abi_version, policy_version)
             SELECT tenant, function, $2, id, $3, encode(sha256($1::text::bytea), 'hex'), source_digest, 'handle', 1000, 4194304,
                    repeat('a', 64), 1, 1 FROM deployments WHERE id = $1",
            "INSERT INTO aliases (tenant, function, alias, version)
             SELECT tenant, function, 'live', $2 FROM deployments WHERE id = $1
             ON CONFLICT ON CONSTRAINT aliases_pkey DO UPDATE SET version = $2",
            "UPDATE deployments SET state = 'admitted', version = $2 WHERE id = $1 AND $3 <> ''",
            "SELECT append_event($1, jsonb_build_object('stage', 'sign', 'kind', 'state', 'state', 'admitted',
                 'version', $2)), append_audit('mfaas-signer', 'version.admitted', 'acme', $1::text, to_jsonb($3)),
                 bump_desired_generation()",
        ];
        for statement in statements {
            // Every statement gets the same three parameters; a CTE gives them their types.
            let typed = format!("WITH typed AS (SELECT $1::uuid, $2::integer, $3::text) {statement}");
            sqlx::query(sqlx::AssertSqlSafe(typed))
                .bind(id.0)
                .bind(version)
                .bind(artifact.to_string())
                .execute(&mut *tx)
                .await
                .unwrap();
        }
        tx.commit().await.unwrap();
        VersionNumber::new(u32::try_from(version).unwrap()).unwrap()
    }

    /// One number, by the owner.
    pub(crate) async fn count(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&self.sql).await.unwrap()
    }

    /// One statement, by the owner.
    pub(crate) async fn damage(&self, statement: &'static str) {
        sqlx::query(statement).execute(&self.sql).await.unwrap();
    }
}

/// What no test but those about them meets.
pub(crate) const WIDE: QueueLimits =
    QueueLimits { deployments_max: 1_000_000, source_bytes_max: 1 << 40, functions_max: 1_000_000 };

/// Records a deployment whose bytes are stored elsewhere.
pub(crate) async fn record(catalog: &Catalog, new: &NewDeployment<'_>) -> Result<Recorded, CatalogError> {
    catalog.record_deployment(&actor(), new, &WIDE, async { Ok(()) }).await
}

pub(crate) fn tenant() -> TenantName {
    TenantName::parse("acme").unwrap()
}

pub(crate) fn function(name: &str) -> FunctionName {
    FunctionName::parse(name).unwrap()
}

/// A new token with which a person reviews.
pub(crate) fn reviewing(person: &PersonName) -> NewToken<'_> {
    static TENANT: std::sync::LazyLock<TenantName> = std::sync::LazyLock::new(tenant);
    let person = Some(person);
    let scopes = Role::Reviewer.scopes();
    NewToken { tenant: &TENANT, name: "reviewer", person, scopes, secret_sha256: secret(), expires_at: None }
}

/// A secret that nobody had before.
pub(crate) fn secret() -> Digest {
    static MADE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    Digest::of(&MADE.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_le_bytes())
}

pub(crate) fn person(name: &str) -> PersonName {
    PersonName::parse(name).unwrap()
}

pub(crate) fn actor() -> Actor {
    Actor::program("test")
}

/// What a builder would claim about an artifact with these bytes.
pub(crate) fn claim(artifact: &[u8]) -> BuildClaim {
    BuildClaim {
        artifact: Digest::of(artifact),
        artifact_bytes: artifact.len() as u64,
        source_tree: Digest::of(b"tree"),
        handler: HandlerPath::parse("handle").unwrap(),
        budget_us: Budget::DEFAULT,
        memory_bytes: MemoryLimit::DEFAULT,
        declared: Declared::default(),
        bindings: Default::default(),
        toolchain: ToolchainId(Digest::of(b"toolchain")),
        abi_version: 1,
        lints: lints::required().map(str::to_owned).collect(),
        policy_revision: POLICY_REVISION.to_owned(),
        policy_version: 1,
        decisions: Vec::new(),
        sandbox_level: SandboxLevel::Full,
        checks: vec!["expansion".to_owned()],
    }
}
