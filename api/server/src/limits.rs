//! Every limit of the server, named with its unit. Nothing in the server waits, grows or reads
//! without one of these.

use std::time::Duration;

use chrono::TimeDelta;

/// Connections that are open at once on a listener. For one more the one that has been idle longest leaves; if none is
/// idle, it is MF0912.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Of everybody.
    pub connections_max: usize,
    /// Of one peer: an IPv4 address, or an IPv6 /64, which is what one customer is given.
    pub peer_connections_max: usize,
}

impl Bounds {
    /// Behind a proxy all are one peer, and on the loopback so are all programs of the machine.
    pub const HTTP: Self = Self { connections_max: 2_048, peer_connections_max: 1_536 };
    /// A node waits on two connections. One peer is all nodes behind one address.
    pub const NODES: Self = Self { connections_max: 4_096, peer_connections_max: 1_024 };
    /// A site has a few balancers that ask for readiness.
    pub const HEALTH: Self = Self { connections_max: 256, peer_connections_max: 64 };
    /// A site has a few scrapers, each with a connection or two.
    pub const METRICS: Self = Self { connections_max: 64, peer_connections_max: 16 };
}

/// Requests at once on one connection (HTTP/2). RFC 9113 6.5.2 recommends no less.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 100;
/// What is read ahead of one request's head (HTTP/1.1), in bytes.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// What a peer may send on one stream before we read it (HTTP/2), in bytes.
pub const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// The same for all streams of a connection.
pub const CONNECTION_WINDOW_BYTES: u32 = 256 << 10;

/// Requests with a token or a session that are worked on at once; one more is MF0912. This and the next six are apart,
/// so that who fills one of them keeps nobody else from an answer.
pub const REQUESTS_MAX: usize = 256;
/// Those of one tenant: others find room beside it.
pub const TENANT_REQUESTS_MAX: usize = 192;
/// Requests of anybody: pages without a sign-in, the form of one, the description.
pub const ANONYMOUS_REQUESTS_MAX: usize = 32;
/// Requests that begin or end a sign-in with the provider; each may wait for it.
pub const PROVIDER_REQUESTS_MAX: usize = 16;
/// Requests for readiness and for numbers. `/healthz` needs nothing, and has no limit.
pub const HEALTH_REQUESTS_MAX: usize = 8;
/// Tokens and sessions that were good before, that are looked up at once; further requests wait, [`LOOKUP_WAIT_MAX`]
/// at most. This and the next two are apart, and leave connections to the database for work.
pub const KNOWN_LOOKUPS_MAX: usize = 6;
/// The same of tokens and sessions that nobody has shown to this server yet, which anybody can make up.
pub const STRANGER_LOOKUPS_MAX: usize = 2;
/// The same of nodes' certificates.
pub const NODE_LOOKUPS_MAX: usize = 4;
/// How long a request waits for that.
pub const LOOKUP_WAIT_MAX: Duration = Duration::from_secs(5);
/// Secrets that turn out not to be known, of one address in [`UNKNOWN_PERIOD`]; what it shows then that was not good
/// before is MF0912 and is not looked up.
pub const UNKNOWN_SECRETS_MAX: u32 = 20;
/// In which time they are counted.
pub const UNKNOWN_PERIOD: Duration = Duration::from_secs(1);
/// Addresses that are counted so at once.
pub const UNKNOWN_PEERS_MAX: usize = 4_096;
/// Good tokens that are remembered for the choice of the lane, 32 bytes each.
pub const GOOD_TOKENS_REMEMBERED_MAX: usize = 16_384;
/// Requests of nodes that are worked on at once, long polls included: two of each node.
pub const NODE_REQUESTS_MAX: usize = 2_048;
/// Those of one node.
pub const ONE_NODES_REQUESTS_MAX: usize = 64;
/// Nodes that join at once.
pub const JOINS_MAX: usize = 8;
/// Those from one address.
pub const PEER_JOINS_MAX: usize = 4;
/// Uploads that are received at once.
pub const UPLOADS_MAX: usize = 16;
/// Those of one tenant, by default: three others find room beside it.
pub const TENANT_UPLOADS_DEFAULT: usize = 4;
/// Deployments that one tenant may have in the queue, by default.
pub const TENANT_QUEUED_DEFAULT: u64 = 1_000;
/// Bytes of source that one tenant may have in the queue, by default.
pub const TENANT_QUEUED_BYTES_DEFAULT: u64 = 1 << 30;
/// Functions that one tenant may have, by default: a node holds 100,000 versions of all tenants.
pub const TENANT_FUNCTIONS_DEFAULT: u64 = 2_000;
/// After what time a tenant whose queue is full is told to come back, in seconds.
pub const QUEUE_RETRY_AFTER_S: u32 = 10;
/// How long the blob store may take to give an upload its name: the row of the deployment is locked meanwhile.
pub const PUBLISH_TIME_MAX: Duration = Duration::from_secs(10);
/// Event streams that are open at once.
pub const STREAMS_MAX: usize = 256;
/// Those of one tenant: three others find as much room beside it.
pub const TENANT_STREAMS_MAX: usize = 64;
/// How often it is looked up whether the token of an event stream still counts.
pub const STREAM_TOKEN_LOOK: Duration = Duration::from_secs(5);
/// How long an event stream lives at most; a client resumes with `Last-Event-ID`.
pub const STREAM_LIFE_MAX: Duration = Duration::from_secs(3_600);
/// Events that are read from the catalog in one go.
pub const EVENTS_PER_READ_MAX: u32 = 200;
/// A comment line goes over a silent stream after this time.
pub const STREAM_KEEP_ALIVE: Duration = Duration::from_secs(10);
/// A stream looks for news after this time even if no notice came.
pub const STREAM_POLL: Duration = Duration::from_secs(1);

/// Bodies other than uploads, in bytes.
pub const JSON_BYTES_MAX: usize = 64 << 10;
/// Bodies that anybody may send, in bytes: a token in a form.
pub const ANONYMOUS_BYTES_MAX: usize = 4 << 10;
/// A request to join, in bytes: a token and a certificate request.
pub const JOIN_BYTES_MAX: usize = 64 << 10;
/// What anybody's bodies hold together while they arrive and are worked on, in bytes; beyond it MF0912. This and the
/// next ones count what has arrived, nothing that was announced.
pub const ANONYMOUS_BODIES_BYTES_MAX: usize = 16 << 20;
/// Those of one peer. On the loopback that is everybody behind a proxy.
pub const PEER_BODIES_BYTES_MAX: usize = 12 << 20;
/// What bodies of nodes hold that join.
pub const JOIN_BODIES_BYTES_MAX: usize = 4 << 20;
/// Those of one peer.
pub const PEER_JOIN_BODIES_BYTES_MAX: usize = 1 << 20;
/// The same of callers with a token or a session.
pub const BODIES_BYTES_MAX: usize = 128 << 20;
/// Those of one tenant: two imports.
pub const TENANT_BODIES_BYTES_MAX: usize = 64 << 20;
/// The same of nodes.
pub const NODE_BODIES_BYTES_MAX: usize = 256 << 20;
/// Those of one node: two of the largest.
pub const ONE_NODES_BODIES_BYTES_MAX: usize = 64 << 20;
/// A node's report or log batch, in bytes: 100,000 rows of about 300 bytes.
pub const NODE_BODY_BYTES_MAX: usize = 32 << 20;
/// What is read and thrown away of an upload that is too large, in bytes, so that the client
/// gets to read the refusal instead of a reset connection.
pub const DRAIN_BYTES_MAX: u64 = 16 << 20;
/// How long that reading may take.
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

/// Rows of a page when the caller names no number.
pub const PAGE_ROWS_DEFAULT: u32 = mfaas_wire::schema::PAGE_ROWS_DEFAULT;
/// Rows of a page at most.
pub const PAGE_ROWS_MAX: u32 = mfaas_wire::schema::PAGE_ROWS_MAX;
/// The longest idempotency key, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = mfaas_wire::schema::IDEMPOTENCY_KEY_BYTES_MAX;
/// The longest name of a token, in characters.
pub const TOKEN_NAME_CHARS_MAX: usize = 80;

/// How long callers may take. What is late is MF0915 where there is a request to answer, and else the end of its
/// connection.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// A TLS handshake.
    pub handshake: Duration,
    /// From then, or from the beginning of a connection without TLS, to the end of the first request's head: the first
    /// byte is in it, and the preface of HTTP/2.
    pub first_request: Duration,
    /// The head of a later request, from the answer before it (HTTP/1.1).
    pub head: Duration,
    /// A connection on which nothing is asked. Longer than `body`, which may still arrive.
    pub idle: Duration,
    /// Between two pieces of a body.
    pub body_pause: Duration,
    /// A body from its head to its end.
    pub body: Duration,
    /// The same where anybody may send it.
    pub anonymous_body: Duration,
    /// The same for an upload: 10 MiB at 35 KB a second.
    pub upload: Duration,
    /// From the end of a request's body to the head of its answer; an upload has it behind its own time.
    pub work: Duration,
}

impl Deadlines {
    /// What holds.
    pub const SERVER: Self = Self {
        handshake: Duration::from_secs(10),
        first_request: Duration::from_secs(10),
        head: Duration::from_secs(10),
        idle: Duration::from_secs(90),
        body_pause: Duration::from_secs(15),
        body: Duration::from_secs(60),
        anonymous_body: Duration::from_secs(10),
        upload: Duration::from_secs(300),
        work: Duration::from_secs(120),
    };
}

/// An answer that is still on its way after this time ends with its connection: longer than an event stream lives.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(3_900);
/// Sent bytes that the peer does not take in this time end the connection, in milliseconds.
pub const UNTAKEN_MS_MAX: u32 = 30_000;
/// How often a quiet peer is asked whether it lives (HTTP/2).
pub const PING_INTERVAL: Duration = Duration::from_secs(20);
/// How long it may take to say so.
pub const PING_WAIT_MAX: Duration = Duration::from_secs(10);
/// How often a connection's time is looked at: one that is due ends so much later at most.
pub const CONNECTION_LOOK: Duration = Duration::from_secs(5);
/// What a connection that has to end still gets to finish.
pub const PARTING_TIME_MAX: Duration = Duration::from_secs(5);
/// What a client may still send after the last answer, so that the answer arrives.
pub const LINGER_BYTES_MAX: u64 = 16 << 20;
/// For how long.
pub const LINGER_MAX: Duration = Duration::from_secs(2);
/// After a failed accept.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long open requests get to end when the server stops.
pub const DRAIN_CONNECTIONS_MAX: Duration = Duration::from_secs(8);

/// How often the files of the server's certificate are looked at.
pub const CERTIFICATE_LOOK_EVERY: Duration = Duration::from_secs(10);
/// The largest such file, in bytes.
pub const CERTIFICATE_FILE_BYTES_MAX: u64 = 256 << 10;
/// How long a node that joins or renews its certificate waits for the signer. It waits itself for half a minute.
pub const CERTIFICATE_WAIT_MAX: Duration = Duration::from_secs(10);
/// When it is to ask again, in seconds.
pub const CERTIFICATE_RETRY_AFTER_S: u32 = 30;
/// A node that has not reported for this long is called silent, in seconds.
pub const NODE_SILENT_S: i64 = 30;

/// How long a console session lives; how many there are at once, the database bounds.
pub const SESSION_LIFE: Duration = Duration::from_secs(12 * 3_600);
/// How long an attempt to sign in with the provider may take.
pub const SIGN_IN_ATTEMPT_LIFE: Duration = Duration::from_secs(600);
/// How far the clocks of two servers of a site may be apart.
pub const SERVER_CLOCKS_APART_MAX: Duration = Duration::from_secs(60);
/// How long a connection to the provider may take.
pub const PROVIDER_CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// How long one answer of the provider may take.
pub const PROVIDER_TIME_MAX: Duration = Duration::from_secs(10);
/// One answer of the provider, in bytes.
pub const PROVIDER_ANSWER_BYTES_MAX: usize = 256 << 10;
/// How long what the provider says about itself counts, its keys included.
pub const PROVIDER_KNOWN_LIFE: Duration = Duration::from_secs(600);
/// How long a failure to ask it is remembered.
pub const PROVIDER_FAILED_LIFE: Duration = Duration::from_secs(5);
/// How far the provider's clock may be ahead of ours.
pub const PROVIDER_CLOCK_AHEAD_MAX: chrono::TimeDelta = chrono::TimeDelta::seconds(60);
/// How long a session of somebody lives whom the provider has signed in, in minutes.
pub const PROVIDER_SESSION_MINUTES_DEFAULT: u32 = 480;
/// The longest such session, in minutes: that of any session.
pub const PROVIDER_SESSION_MINUTES_MAX: u32 = 720;
/// The provider's configuration, or its secret, in bytes.
pub const OIDC_FILE_BYTES_MAX: u64 = 64 << 10;
/// The query of a call that the console makes, in bytes. Its body is bounded with the form, by [`JSON_BYTES_MAX`].
pub const CONSOLE_CALL_QUERY_BYTES_MAX: usize = 2_048;
/// Headers of such a call.
pub const CONSOLE_CALL_HEADERS_MAX: usize = 16;
/// What is read of its answer, in bytes; the rest is left.
pub const CONSOLE_CALL_ANSWER_BYTES_MAX: usize = 64 << 10;
/// Headers of its answer that are shown.
pub const CONSOLE_CALL_ANSWER_HEADERS_MAX: usize = 64;
/// Bytes that are shown of an answer that is no text.
pub const CONSOLE_CALL_HEX_BYTES_MAX: usize = 512;
/// How long it may take: the longest budget, twice.
pub const CONSOLE_CALL_TIME_MAX: Duration = Duration::from_secs(20);
/// How long its token is good for: it is made for this call, and the clocks of two machines differ.
pub const CONSOLE_CALL_TOKEN_LIFE: Duration = Duration::from_secs(120);

/// How long a connection to a node may take to stand.
pub const NODE_CONNECT_MAX: Duration = Duration::from_secs(5);

/// How often this server looks for schedules that are due.
pub const SCHEDULES_LOOK_EVERY: Duration = Duration::from_secs(1);
/// Calls of schedules that this server makes at once.
pub const SCHEDULED_CALLS_MAX: usize = 64;
/// Those of one tenant: seven others find as much room beside it.
pub const TENANT_SCHEDULED_CALLS_MAX: usize = 8;
/// How long such a call may take, with all its tries.
pub const SCHEDULED_CALL_TIME_MAX: Duration = Duration::from_secs(3_600);
/// After what time one without an end is taken for lost with its server.
pub const SCHEDULED_CALL_LOST_AFTER: TimeDelta = TimeDelta::seconds(3_900);
/// How often a call is tried that no node took.
pub const SCHEDULED_CALL_TRIES: u32 = 4;
/// What is waited between two tries.
pub const SCHEDULED_CALL_PAUSE: Duration = Duration::from_secs(5);
/// What is read of an answer that is no success, in bytes: a code stands there.
pub const SITE_CALL_ANSWER_BYTES_MAX: usize = 64 << 10;
/// How long the call token of a schedule or trigger is good for.
pub const SITE_CALL_TOKEN_LIFE: Duration = Duration::from_secs(86_400);
/// How long it is used: calls that begin with it have to begin before its end.
pub const SITE_CALL_TOKEN_USED: Duration = Duration::from_secs(43_200);
/// How long it is used whatever a node says of it: each has a record.
pub const SITE_CALL_TOKEN_USED_MIN: Duration = Duration::from_secs(600);
/// How often the end of a call is told to a database that does not take it, a second apart.
pub const SCHEDULED_END_TRIES: u32 = 30;
/// How long calls of schedules may go on when the server stops, and how long it may take then to tell that they are lost.
pub const SCHEDULED_CALLS_DRAIN: Duration = Duration::from_secs(5);

/// How often this server looks for events that wait, where none of its calls has ended.
pub const TRIGGERS_LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often it compares triggers with those that events are written for.
pub const TRIGGERS_COMPARED_EVERY: Duration = Duration::from_secs(5);
/// Triggers that are read at once for that.
pub const TRIGGERS_PAGE_MAX: u32 = 1_000;
/// Calls for events that this server makes at once.
pub const TRIGGERED_CALLS_MAX: usize = 64;
/// Those of one tenant: seven others find as much room beside it.
pub const TENANT_TRIGGERED_CALLS_MAX: usize = 8;
/// How long such a call may take.
pub const TRIGGERED_CALL_TIME_MAX: Duration = Duration::from_secs(300);
/// After what time one without an end is taken for lost with its server: the event is called for again.
pub const TRIGGERED_CALL_LEASE: Duration = Duration::from_secs(360);
/// How often a function is called for one event that it does not answer well.
pub const TRIGGERED_CALL_TRIES: u32 = 8;
/// What is waited after the first of these calls, and four times as long after each further one.
pub const TRIGGERED_CALL_PAUSE: Duration = Duration::from_secs(5);
/// But never longer than this.
pub const TRIGGERED_CALL_PAUSE_MAX: Duration = Duration::from_secs(3_600);
/// How often the end of a call is told to a database that does not take it, a second apart.
pub const TRIGGERED_END_TRIES: u32 = 30;
/// How long calls for events may go on when the server stops, and how long it may take then to tell that they are lost.
pub const TRIGGERED_CALLS_DRAIN: Duration = Duration::from_secs(5);
/// Rows of a table in the console.
pub const CONSOLE_ROWS_MAX: u32 = 100;
/// Bans in force that one answer or page shows; the newest come first.
pub const BANS_SHOWN_MAX: u32 = 1_000;
/// Grants that stand with a resource in a list; the rest have a list of their own.
pub const RESOURCE_GRANTS_SHOWN_MAX: u32 = 20;
/// Versions that the page about usage shows.
pub const USAGE_ROWS_SHOWN_MAX: usize = 500;
/// Nodes of one page of charts, by name.
pub const CHART_NODES_MAX: usize = 24;
/// Crates that the graph of a closure draws; more are only listed.
pub const GRAPH_CRATES_MAX: usize = 60;
/// Functions that a call graph draws; more are only listed.
pub const GRAPH_FUNCTIONS_MAX: usize = 60;
/// Functions that a call graph lists, each with the sixteen at most that it calls.
pub const GRAPH_FUNCTIONS_LISTED_MAX: u32 = 200;
/// Functions of a tenant that are asked whether they call one: as many as it may have by default.
pub const CALLERS_LOOKED_AT_MAX: u32 = 2_000;
/// How old the count of who uses which crate may be when the list of crates shows it, before it is made anew.
pub const SITE_USE_LIFE: Duration = Duration::from_secs(10);
/// Log lines that the console shows.
pub const CONSOLE_LOG_LINES_MAX: u32 = 200;
/// One log line as shown, in bytes.
pub const LOG_LINE_BYTES_MAX: usize = 4_096;

/// Advisories or audits in one import, in bytes. RustSec's whole database is below 2 MiB.
pub const IMPORT_BYTES_MAX: usize = 32 << 20;
/// Hotspots that the page of a review shows; the others are on the pages of their files.
pub const CONSOLE_HOTSPOTS_MAX: usize = 500;
/// Reasons that the page of a review shows; the most severe come first.
pub const CONSOLE_REASONS_MAX: usize = 200;
/// Reasons that stand beside the suggestion.
pub const CONSOLE_MOST_SEVERE_MAX: usize = 3;
/// Places that are shown of one reason or one class of interfaces.
pub const CONSOLE_PLACES_MAX: usize = 20;
/// Files that the page of a review lists.
pub const CONSOLE_FILES_MAX: usize = 2_000;
/// Audits of others that the page of a review shows.
pub const CONSOLE_HINTS_MAX: usize = 50;
/// Lines of a file on one page.
pub const CONSOLE_FILE_LINES_MAX: usize = 2_000;
/// One line of a file as shown, in bytes; the page says when one is longer.
pub const CONSOLE_LINE_BYTES_MAX: usize = 4_000;
/// Source text on one page, in bytes; lines behind it say that they are cut.
pub const CONSOLE_PAGE_TEXT_BYTES_MAX: usize = 1 << 20;
/// Coloured pieces of source on one page; what comes behind them is shown in one colour.
pub const CONSOLE_PAGE_PIECES_MAX: usize = 60_000;
/// Rows of a comparison on one page.
pub const CONSOLE_DIFF_ROWS_MAX: usize = 1_000;
/// Lines that did not change around those that did.
pub const CONSOLE_DIFF_AROUND_LINES: usize = 3;
/// How long comparing one file for its page may take.
pub const CONSOLE_DIFF_TIME_MAX: Duration = Duration::from_millis(500);
/// One text out of a report or a form as shown, in bytes.
pub const CONSOLE_TEXT_BYTES_MAX: usize = 16_000;
/// Files of a delta in the answer about a review.
pub const DELTA_FILES_MAX: usize = 2_000;
/// Closed reviews of each state in the queue.
pub const CONSOLE_CLOSED_MAX: u32 = 25;
/// What an audit row says beyond its columns, as shown, in bytes.
pub const CONSOLE_DETAIL_BYTES_MAX: usize = 2_000;
/// A note about a hotspot, in characters.
pub const HOTSPOT_NOTE_CHARS_MAX: usize = 2_000;
/// The longest life of a yes, in days: ten years.
pub const TERMS_DAYS_MAX: i64 = 3_653;

/// The words of a decision, in characters.
pub const NOTE_CHARS_MAX: usize = 4_000;
/// Features in one request for a crate.
pub const FEATURES_MAX: usize = 64;
/// The name of a feature, in bytes.
pub const FEATURE_BYTES_MAX: usize = mfaas_wire::schema::FEATURE_BYTES_MAX;

/// How often refusals that had no log line of their own are told, in one line.
pub const TALLY_PERIOD: Duration = Duration::from_secs(60);
/// Lines about refused requests of anybody with one code in such a time, and about connections that came to nothing.
pub const ANONYMOUS_LINES_MAX: u64 = 10;
/// Lines about refused requests of known callers with one code, and about requests that failed, each, in such a time.
pub const KNOWN_LINES_MAX: u64 = 200;
/// How long numbers that are counted in the database are served before they are counted again.
pub const COUNTS_LIFE: Duration = Duration::from_secs(10);

/// How often the blob store is looked at for readiness: a look writes 64 KiB and removes them again.
pub const PARTS_LOOK_EVERY: Duration = Duration::from_secs(10);
/// How long it may take to say that it takes bytes, before it counts as silent.
pub const PART_ANSWER_MAX: Duration = Duration::from_secs(5);
/// How often deployments are looked for that have ended, for the times of their stages.
pub const STAGES_LOOK_EVERY: Duration = Duration::from_secs(10);
/// After what time an ended deployment is counted: longer than a transaction lives that could bring an earlier one.
pub const STAGES_SETTLE: Duration = Duration::from_secs(60);

/// How often the blob store is swept of what broken uploads left behind.
pub const SWEEP_EVERY: Duration = Duration::from_secs(3_600);

/// How often what is old is forgotten.
pub const FORGET_EVERY: Duration = Duration::from_secs(3_600);
/// The rest between two batches.
pub const FORGET_PAUSE: Duration = Duration::from_millis(200);
/// How often blobs are collected that no row refers to: the whole store is listed for it.
pub const COLLECT_EVERY: Duration = Duration::from_secs(6 * 3_600);
/// The longest time that anything can be told to be kept, in days, short of for ever: a hundred years.
pub const KEEP_DAYS_MAX: u32 = 36_500;
/// How long a blob is kept that no row refers to, by default, in hours.
pub const BLOB_GRACE_HOURS_DEFAULT: u64 = 24;
/// The longest such time, in hours: a year.
pub const BLOB_GRACE_HOURS_MAX: u64 = 8_760;

/// Connections to the database.
pub const DATABASE_CONNECTIONS_MAX: u32 = 16;
/// An allowlist file, in bytes.
pub const ALLOWLIST_FILE_BYTES_MAX: u64 = 16 << 20;
