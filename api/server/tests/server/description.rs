//! What the description of the interface says of input is what the server takes: of every operation, as a caller who may
//! do everything. `scripts/lint-api` asks much more; what it found once is found here.

use mfaas_ident::Scope;
use serde_json::Value;

use crate::roles::filled;
use crate::support::Server;

const EVERYTHING: [Scope; 5] = [Scope::Read, Scope::Deploy, Scope::Review, Scope::Operate, Scope::Admin];

/// An operation of the description.
struct Operation {
    method: String,
    path: String,
    described: Value,
}

async fn operations(server: &Server) -> Vec<Operation> {
    let description = server.get("/openapi.json", "").await.json();
    let mut all = Vec::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, described) in item.as_object().unwrap() {
            let method = method.to_uppercase();
            all.push(Operation { method, path: path.clone(), described: described.clone() });
        }
    }
    all
}

impl Operation {
    fn parameters(&self, place: &str) -> impl Iterator<Item = (&str, &Value)> {
        let all = self.described["parameters"].as_array().into_iter().flatten();
        let of_place = all.filter(move |parameter| parameter["in"] == place);
        of_place.map(|parameter| (parameter["name"].as_str().unwrap(), &parameter["schema"]))
    }
}

/// What serde derives takes a list of the fields in their order, too: `[]` once rotated the keys of call tokens.
#[tokio::test]
async fn a_body_that_is_no_object_is_refused() {
    let server = Server::start().await;
    let token = server.token("acme", &EVERYTHING).await;
    let mut seen = 0;
    for operation in operations(&server).await {
        if !operation.described["requestBody"]["content"]["application/json"].is_object() {
            continue;
        }
        for body in ["[]", "[1]", "null", "true", "\"x\""] {
            let request = server.request(&operation.method, &filled(&operation.path), &token);
            let answer = server.send(request.header("content-type", "application/json").body(body)).await;
            let told = (answer.status, answer.code());
            assert_eq!(
                told,
                (400, "MF0904".to_owned()),
                "{} {} with {body}",
                operation.method,
                operation.path
            );
            assert!(answer.body.contains("expected an object"), "{answer:?}");
        }
        seen += 1;
    }
    assert!(seen >= 11, "{seen}");
}

#[tokio::test]
async fn numbers_have_the_bounds_that_the_description_gives_them() {
    let server = Server::start().await;
    let token = server.token("acme", &EVERYTHING).await;
    let mut seen = 0;
    for operation in operations(&server).await {
        for (name, schema) in operation.parameters("query").filter(|(_, schema)| schema["type"] == "integer")
        {
            let bound = |key: &str| schema[key].as_i64().unwrap_or_else(|| panic!("{name} has no {key}"));
            let (lowest, highest) = (i128::from(bound("minimum")), i128::from(bound("maximum")));
            for (number, fits) in [(lowest - 1, false), (lowest, true), (highest, true), (highest + 1, false)]
            {
                let path = format!("{}?{name}={number}", filled(&operation.path));
                let answer = server.send(server.request(&operation.method, &path, &token)).await;
                assert_eq!(answer.status != 400, fits, "{} {path}: {answer:?}", operation.method);
                assert!(answer.status < 500, "{} {path}: {answer:?}", operation.method);
            }
            seen += 1;
        }
    }
    assert!(seen >= 12, "{seen}");
}
