//! Every limit of the server, named with its unit. Nothing in the server waits, grows or reads
//! without one of these.

use std::time::Duration;

/// Connections that are open at once on the HTTP listener; further ones wait in the kernel.
pub const HTTP_CONNECTIONS_MAX: usize = 1_024;
/// Connections that are open at once on the node listener; a node waits on two of them.
pub const NODE_CONNECTIONS_MAX: usize = 2_048;
/// Requests that are worked on at once; one more is MF0912.
pub const REQUESTS_MAX: usize = 256;
/// Requests of nodes that are worked on at once, long polls included: two of each node.
pub const NODE_REQUESTS_MAX: usize = 2_048;
/// Uploads that are received at once.
pub const UPLOADS_MAX: usize = 16;
/// Those of one tenant, by default: three others find room beside it.
pub const TENANT_UPLOADS_DEFAULT: usize = 4;
/// Deployments that one tenant may have in the queue, by default.
pub const TENANT_QUEUED_DEFAULT: u64 = 1_000;
/// Bytes of source that one tenant may have in the queue, by default.
pub const TENANT_QUEUED_BYTES_DEFAULT: u64 = 1 << 30;
/// After what time a tenant whose queue is full is told to come back, in seconds.
pub const QUEUE_RETRY_AFTER_S: u32 = 10;
/// How long the blob store may take to give an upload its name: the row of the deployment is locked meanwhile.
pub const PUBLISH_TIME_MAX: Duration = Duration::from_secs(10);
/// Event streams that are open at once.
pub const STREAMS_MAX: usize = 256;
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
/// A node's report or log batch, in bytes: 100,000 rows of about 300 bytes.
pub const NODE_BODY_BYTES_MAX: usize = 32 << 20;
/// What is read and thrown away of an upload that is too large, in bytes, so that the client
/// gets to read the refusal instead of a reset connection.
pub const DRAIN_BYTES_MAX: u64 = 16 << 20;
/// How long that reading may take.
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);
/// The longest pause between two pieces of an upload.
pub const UPLOAD_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Rows of a page when the caller names no number.
pub const PAGE_ROWS_DEFAULT: u32 = 100;
/// Rows of a page at most.
pub const PAGE_ROWS_MAX: u32 = 1_000;
/// The longest idempotency key, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 200;
/// The longest name of a token, in characters.
pub const TOKEN_NAME_CHARS_MAX: usize = 80;

/// How long the request line and the headers may take to arrive.
pub const HEADER_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a TLS handshake may take.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// How long open requests get to end when the server stops.
pub const DRAIN_CONNECTIONS_MAX: Duration = Duration::from_secs(8);

/// How long a join token is good for.
pub const JOIN_TOKEN_LIFE: Duration = Duration::from_secs(24 * 3_600);
/// How long a node's certificate is good for, in days.
pub const NODE_CERTIFICATE_DAYS: u64 = 365;
/// A node that has not reported for this long is called silent, in seconds.
pub const NODE_SILENT_S: i64 = 30;

/// Console sessions that are held at once; the oldest goes first.
pub const SESSIONS_MAX: usize = 1_000;
/// How long a console session lives.
pub const SESSION_LIFE: Duration = Duration::from_secs(12 * 3_600);
/// Attempts to sign in with a provider that are under way at once; the oldest goes first.
pub const SIGN_IN_ATTEMPTS_MAX: usize = 1_000;
/// How long an attempt may take.
pub const SIGN_IN_ATTEMPT_LIFE: Duration = Duration::from_secs(600);
/// Requests that talk with the provider at once.
pub const PROVIDER_TALKS_MAX: usize = 16;
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
/// Rows of a table in the console.
pub const CONSOLE_ROWS_MAX: u32 = 100;
/// Bans in force that one answer or page shows; the newest come first.
pub const BANS_SHOWN_MAX: u32 = 1_000;
/// Versions that the page about usage shows.
pub const USAGE_ROWS_SHOWN_MAX: usize = 500;
/// Log lines that the console shows.
pub const CONSOLE_LOG_LINES_MAX: u32 = 200;
/// One log line as shown, in bytes.
pub const LOG_LINE_BYTES_MAX: usize = 4_096;

/// Advisories or audits in one import, in bytes. RustSec's whole database is below 2 MiB.
pub const IMPORT_BYTES_MAX: usize = 32 << 20;
/// Spots that the page of a review shows; the others are on the pages of their files.
pub const CONSOLE_SPOTS_MAX: usize = 500;
/// Reasons that the page of a review shows; the gravest come first.
pub const CONSOLE_REASONS_MAX: usize = 200;
/// Reasons that stand beside the suggestion.
pub const CONSOLE_GRAVEST_MAX: usize = 3;
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
/// A note about a spot, in characters.
pub const SPOT_NOTE_CHARS_MAX: usize = 2_000;
/// The longest life of a yes, in days: ten years.
pub const TERMS_DAYS_MAX: i64 = 3_653;

/// The words of a decision, in characters.
pub const NOTE_CHARS_MAX: usize = 4_000;
/// Features in one request for a crate.
pub const FEATURES_MAX: usize = 64;
/// The name of a feature, in bytes.
pub const FEATURE_BYTES_MAX: usize = 64;

/// How often the blob store is swept of what broken uploads left behind.
pub const SWEEP_EVERY: Duration = Duration::from_secs(3_600);

/// Connections to the database.
pub const DATABASE_CONNECTIONS_MAX: u32 = 16;
/// An allowlist file, in bytes.
pub const ALLOWLIST_FILE_BYTES_MAX: u64 = 16 << 20;
