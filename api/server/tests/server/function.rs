//! The page of a function: who may call it.

use std::collections::BTreeMap;

use chrono::Utc;
use mfaas_attest::{
    Admission, BuildDefinition, BuildMetadata, Builder, Declared, Fields, PrivateKey, Provenance,
    ResourceDescriptor, RunDetails, SandboxLevel, Statement, sign,
};
use mfaas_ident::{Access, Budget, Digest, HandlerPath, MemoryLimit, Scope, ToolchainId, VersionNumber};

use crate::console::{page, sign_in};
use crate::support::{Server, admitted_version};

/// A signed statement about version 1 of a function of tenant `a`.
fn statement(function: &str, access: Access) -> String {
    let artifact = Digest::of(b"so");
    let statement = Statement::new(Admission {
        tenant: "a".parse().unwrap(),
        function: function.parse().unwrap(),
        version: VersionNumber::FIRST,
        deployment: "00000000-0000-4000-8000-000000000000".parse().unwrap(),
        artifact,
        artifact_bytes: 2,
        handler: HandlerPath::parse("handle").unwrap(),
        budget_us: Budget::DEFAULT,
        memory_bytes: MemoryLimit::DEFAULT,
        declared: Some(Declared { access: None, ..Declared::default() }),
        fields: Some(Fields::new(access)),
        source_upload: Digest::of(b"tar"),
        source_tree: Digest::of(b"tree"),
        toolchain: ToolchainId(Digest::of(b"rustc")),
        abi_version: 1,
        lints: Vec::new(),
        policy_version: 1,
        policy_revision: "r".to_owned(),
        decisions: Vec::new(),
        elf_facts: Digest::of(b"facts"),
        sandbox_level: SandboxLevel::Full,
        checks: Vec::new(),
        bindings: Vec::new(),
        calls: Vec::new(),
        provenance: Provenance {
            build_definition: BuildDefinition {
                build_type: Provenance::BUILD_TYPE.to_owned(),
                external_parameters: BTreeMap::new(),
                internal_parameters: BTreeMap::new(),
                resolved_dependencies: vec![ResourceDescriptor::sha256("mfaas:source-upload", &artifact)],
            },
            run_details: RunDetails {
                builder: Builder { id: Provenance::BUILDER_ID.to_owned() },
                metadata: BuildMetadata {
                    invocation_id: "x#1".to_owned(),
                    started_on: Utc::now(),
                    finished_on: Utc::now(),
                },
            },
        },
    });
    String::from_utf8(sign(&statement, &[&PrivateKey::generate().unwrap()]).unwrap()).unwrap()
}

#[tokio::test]
async fn the_page_says_who_may_call_in_the_words_of_the_signed_statement() {
    let server = Server::start().await;
    let token = server.token("a", &[Scope::Read, Scope::Deploy]).await;
    let created = server.upload("hello", &token, vec![1]).await.json();
    let cookie = sign_in(&server, &token).await;
    let body = page(&server, "/functions/hello", &cookie).await.body;
    assert!(body.contains("Nobody: no version is live."), "{body}");
    admitted_version(
        &server.db,
        "a",
        "hello",
        created["deployment"]["id"].as_str().unwrap(),
        &"a".repeat(64),
    );
    let shown = async |envelope: String| {
        server.db.sql(&format!("UPDATE statements SET envelope = '{}'", envelope.replace('\'', "''")));
        page(&server, "/functions/hello", &cookie).await.body
    };
    // The row says `tenant`; what is signed counts.
    for (access, word, meaning) in [
        (Access::Public, "public", "Anybody who reaches a node"),
        (Access::Tenant, "tenant", "or all of them (*)."),
        (Access::Token, "token", "one for all (*) is not enough"),
    ] {
        let body = shown(statement("hello", access)).await;
        assert!(body.contains(&format!("access = \"{word}\"</code>")) && body.contains(meaning), "{body}");
    }
    for foreign in [statement("other", Access::Public), "{}".to_owned()] {
        let body = shown(foreign).await;
        assert!(body.contains("cannot be read: nodes refuse") && !body.contains("access = \""), "{body}");
    }
}
