//! The one table from error code to HTTP status.
//!
//! Domain crates know codes and no HTTP; here every code gets its status, and a test fails when a
//! code has no row or a row has no code. Refusals of a deployment are mostly seen inside events;
//! they have a status too, since a route that reports one must not have to invent it.

use mfaas_rules::{Code, codes};

/// Every code with its status, in the order of the codes.
pub const STATUSES: &[(Code, u16)] = &[
    // Archive: the request itself is unfit.
    (codes::MF0101, 413),
    (codes::MF0102, 400),
    (codes::MF0103, 413),
    (codes::MF0104, 413),
    (codes::MF0105, 422),
    (codes::MF0106, 422),
    (codes::MF0107, 422),
    (codes::MF0108, 422),
    (codes::MF0109, 422),
    // Manifest and dependencies: understood, and refused.
    (codes::MF0201, 422),
    (codes::MF0202, 422),
    (codes::MF0203, 422),
    (codes::MF0204, 422),
    (codes::MF0205, 422),
    (codes::MF0206, 422),
    (codes::MF0207, 422),
    (codes::MF0209, 422),
    (codes::MF0210, 422),
    // Source.
    (codes::MF0301, 422),
    (codes::MF0302, 422),
    (codes::MF0303, 422),
    (codes::MF0304, 422),
    (codes::MF0305, 422),
    (codes::MF0306, 422),
    (codes::MF0307, 422),
    (codes::MF0308, 422),
    (codes::MF0309, 422),
    (codes::MF0310, 422),
    (codes::MF0311, 422),
    (codes::MF0312, 422),
    (codes::MF0313, 422),
    (codes::MF0314, 422),
    // Compile: 422 where the source is the reason, 500 where the machine is.
    (codes::MF0401, 422),
    (codes::MF0402, 422),
    (codes::MF0403, 422),
    (codes::MF0404, 422),
    (codes::MF0405, 422),
    (codes::MF0406, 422),
    (codes::MF0407, 422),
    (codes::MF0408, 422),
    (codes::MF0409, 503),
    (codes::MF0410, 500),
    // Binary.
    (codes::MF0501, 500),
    (codes::MF0502, 422),
    (codes::MF0503, 422),
    (codes::MF0504, 422),
    (codes::MF0505, 422),
    (codes::MF0506, 422),
    (codes::MF0507, 422),
    (codes::MF0508, 422),
    (codes::MF0509, 422),
    (codes::MF0510, 500),
    // Signing and registry: what is stored cannot be trusted, or has moved on.
    (codes::MF0601, 500),
    (codes::MF0602, 500),
    (codes::MF0603, 409),
    (codes::MF0604, 409),
    (codes::MF0605, 409),
    (codes::MF0606, 500),
    (codes::MF0607, 500),
    // Push and node.
    (codes::MF0701, 503),
    (codes::MF0702, 503),
    (codes::MF0703, 503),
    (codes::MF0704, 502),
    (codes::MF0705, 502),
    (codes::MF0706, 410),
    (codes::MF0707, 409),
    (codes::MF0708, 502),
    (codes::MF0709, 502),
    (codes::MF0710, 403),
    (codes::MF0711, 503),
    (codes::MF0712, 503),
    // Invocation.
    (codes::MF0801, 404),
    (codes::MF0802, 500),
    (codes::MF0803, 504),
    (codes::MF0804, 500),
    (codes::MF0805, 500),
    (codes::MF0806, 500),
    (codes::MF0807, 500),
    (codes::MF0808, 503),
    (codes::MF0809, 413),
    (codes::MF0810, 502),
    (codes::MF0811, 503),
    (codes::MF0812, 500),
    (codes::MF0813, 503),
    (codes::MF0814, 500),
    (codes::MF0815, 503),
    (codes::MF0816, 401),
    (codes::MF0817, 403),
    (codes::MF0818, 429),
    // Access and limits.
    (codes::MF0901, 401),
    (codes::MF0902, 403),
    (codes::MF0903, 404),
    (codes::MF0904, 400),
    (codes::MF0905, 422),
    (codes::MF0906, 421),
    (codes::MF0907, 413),
    (codes::MF0908, 409),
    (codes::MF0909, 500),
    (codes::MF0910, 503),
    (codes::MF0911, 404),
    (codes::MF0912, 429),
    (codes::MF0913, 403),
    (codes::MF0914, 403),
];

/// The status of `code`: an HTTP status number. 500 for a code without a row, which the test of
/// the table makes impossible; a failure shown as a failure is the closed way to fail.
pub fn status_of(code: Code) -> u16 {
    STATUSES.iter().find(|(row, _)| *row == code).map_or(500, |(_, status)| *status)
}
