//! The rest of the API's description: what no handler says of itself, because the server answers it before one runs.
//!
//! Which statuses a route may answer with follows from its row in the table of access, from whether it takes a body, and
//! from what its handler says. Must stay what `edge`, `access` and `pools` do: `scripts/lint-api` compares.

use std::collections::BTreeMap;

use mfaas_rules::{Code, codes};
use mfaas_wire::{PROBLEM_MEDIA_TYPE, status_of};
use utoipa::openapi::path::{Operation, Parameter, PathItem};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Components, Content, OpenApi, Ref, RefOr, Response, ResponseBuilder, Server};

use crate::access::{Access, access_of};

/// Every answer that the server gives by itself, under the name that it has in the description.
const COMMON: &[(&str, Code, &str)] = &[
    ("Invalid", codes::MF0904, "The request breaks a rule of the interface"),
    ("Unknown", codes::MF0901, "The token is missing, not known, expired or withdrawn"),
    ("Forbidden", codes::MF0902, "The token may not do this"),
    ("NotFound", codes::MF0903, "Not found, or it belongs to another tenant"),
    ("TooSlow", codes::MF0915, "The body came too slowly"),
    ("Conflict", codes::MF0908, "The request conflicts with the present state"),
    ("TooLarge", codes::MF0907, "The body is too large"),
    ("OtherType", codes::MF0916, "The body is of another type than the route takes"),
    ("OtherHost", codes::MF0906, "The server does not answer to this host name"),
    ("Busy", codes::MF0912, "Too many requests at once; `Retry-After` says when to try again"),
    ("Failed", codes::MF0909, "Something went wrong inside the server"),
    (
        "Unavailable",
        codes::MF0910,
        "The server cannot work at the moment; `Retry-After` says when to try again",
    ),
];

/// Completes what the handlers say.
pub(crate) fn complete(mut description: OpenApi) -> OpenApi {
    description.servers = Some(vec![Server::new("/")]);
    let components = description.components.get_or_insert_default();
    add_common(components);
    for (path, item) in &mut description.paths.paths {
        for (method, operation) in operations(item) {
            complete_operation(operation, access_of(&method, path), &method, path);
        }
    }
    drop_unused(&mut description);
    description
}

/// Objects of a page are described inside of it, and would stand there a second time.
fn drop_unused(description: &mut OpenApi) {
    let text = description.to_json().unwrap_or_default();
    if let Some(components) = &mut description.components {
        components.schemas.retain(|name, _| text.contains(&format!("\"#/components/schemas/{name}\"")));
    }
}

fn add_common(components: &mut Components) {
    for (name, code, sentence) in COMMON {
        let content = Content::new(Some(Ref::from_schema_name("Problem")));
        let description = format!("{sentence} ({code})");
        let response = ResponseBuilder::new().description(description).content(PROBLEM_MEDIA_TYPE, content);
        components.responses.insert((*name).to_owned(), response.build().into());
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (http::Method, &mut Operation)> {
    let all = [
        (http::Method::GET, &mut item.get),
        (http::Method::PUT, &mut item.put),
        (http::Method::POST, &mut item.post),
        (http::Method::DELETE, &mut item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn complete_operation(operation: &mut Operation, access: Option<Access>, method: &http::Method, path: &str) {
    // A sentence that says everything is both.
    if operation.description.is_none() {
        operation.description.clone_from(&operation.summary);
    }
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter {
            without_null(parameter);
        }
    }
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response {
            describe(status, response);
        }
    }
    let mut names = vec!["OtherHost", "Failed"];
    if path != "/healthz" {
        names.extend(["Busy", "Unavailable"]);
    }
    if matches!(access, Some(Access::Token(_))) {
        // `?tenant=` may stand on each of them.
        names.extend(["Invalid", "Unknown", "Forbidden", "NotFound"]);
    }
    if method != http::Method::GET {
        names.push("Conflict");
    }
    if let Some(RefOr::T(body)) = &operation.request_body {
        names.extend(["TooSlow", "TooLarge"]);
        if body.content.contains_key("application/json") {
            names.push("OtherType");
        }
    }
    let own: BTreeMap<_, _> = std::mem::take(&mut operation.responses.responses);
    let common = COMMON.iter().filter(|(name, _, _)| names.contains(name));
    let common =
        common.map(|(name, code, _)| (status_of(*code).to_string(), Ref::from_response_name(*name).into()));
    // What a handler says of a status itself is more exact.
    operation.responses.responses = common.chain(own).collect();
}

/// A parameter is there or not; no text of it means null.
fn without_null(parameter: &mut Parameter) {
    let Some(RefOr::T(Schema::OneOf(of_two))) = &parameter.schema else { return };
    parameter.schema = of_two.items.first().cloned();
}

fn describe(status: &str, response: &mut Response) {
    if response.description.is_empty() {
        response.description = match status {
            "201" => "What was made",
            "202" => "What was taken on and is not done yet",
            _ => "What was asked for, or is so now",
        }
        .to_owned();
    }
}
