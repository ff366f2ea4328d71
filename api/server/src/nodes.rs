//! The side of the server that nodes talk to, over mutual TLS.
//!
//! A certificate of our authority opens the connection; the catalog decides whether it is still
//! the node's. Only `join` answers without one, and only to a join token. Signed documents
//! pass through as the bytes that were signed; nothing here can make one.

mod peer;
mod protocol;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use mfaas_catalog::JoinedNode;
use mfaas_rules::codes;

use crate::connections::peer_of;
use crate::limits;
use crate::pools::Pool;
use crate::refusal::Refusal;
use crate::shares::Holder;
use crate::state::App;

pub(crate) use peer::{Peer, acceptor};

/// The only route without a client certificate.
const JOIN: &str = "/node/v1/join";

/// The node protocol.
pub(crate) fn router() -> Router<App> {
    Router::new()
        .route(JOIN, post(protocol::join))
        .route("/node/v1/certificate", post(protocol::renew))
        .route("/node/v1/serving-set", get(protocol::serving_set))
        .route("/node/v1/shards", post(protocol::shards))
        .route("/node/v1/key-list", get(protocol::key_list))
        .route("/node/v1/artifacts/{digest}", get(protocol::artifact))
        .route("/node/v1/assets/{digest}", get(protocol::asset))
        .route("/node/v1/statements/{digest}", get(protocol::statement))
        .route("/node/v1/report", post(protocol::report))
        .route("/node/v1/directives", get(protocol::directives))
        // The name before: nodes of this release and of the one before ask here.
        .route("/node/v1/orders", get(protocol::directives))
        .route("/node/v1/bans", post(protocol::ban))
        .route("/node/v1/usage", post(protocol::usage))
        .route("/node/v1/load", post(protocol::load))
        .route("/node/v1/isolation", post(protocol::isolation))
        .route("/node/v1/logs", post(protocol::logs))
}

/// The layer around every route of the node listener: which node calls.
pub(crate) async fn authorize(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let joins = request.extensions().get::<MatchedPath>().is_some_and(|path| path.as_str() == JOIN);
    if joins {
        return match peer_of(request.extensions()) {
            Ok(peer) => {
                app.pools.work(Pool::Join, Holder::Peer(peer), limits::JOIN_BYTES_MAX, request, next).await
            }
            Err(refusal) => refusal.into_response(),
        };
    }
    let peer = request.extensions().get::<Peer>().cloned();
    let node = match node_of(&app, peer).await {
        Ok(node) => node,
        Err(refusal) => return refusal.into_response(),
    };
    let holder = Holder::Node(node.name.clone());
    request.extensions_mut().insert(node);
    app.pools.work(Pool::Node, holder, limits::NODE_BODY_BYTES_MAX, request, next).await
}

/// The node that the connection's certificate belongs to today.
async fn node_of(app: &App, peer: Option<Peer>) -> Result<JoinedNode, Refusal> {
    let stranger = |detail| Refusal::new(codes::MF0710, detail);
    let certificate =
        peer.and_then(|peer| peer.certificate).ok_or_else(|| stranger("No client certificate."))?;
    let looking = async { Ok(app.catalog.node_by_certificate(&certificate.sha256).await?) };
    let found = app.lookups.node(looking).await?;
    let node = found.ok_or_else(|| stranger("The certificate is not the current one of any node."))?;
    // The catalog knows the certificate by its digest; that its name agrees is a second look at
    // the same fact, made by other code.
    if certificate.common_name.as_deref() != Some(node.name.as_str()) {
        return Err(stranger("The certificate names another node."));
    }
    Ok(node)
}
