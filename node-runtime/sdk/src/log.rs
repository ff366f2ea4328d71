//! Log lines.

use mfaas_abi::Level;

/// Writes one log line, which `mfaas logs` shows. Takes what `format!` takes, after an optional
/// level.
///
/// ```
/// mfaas::log!("{} records", 3);
/// mfaas::log!(mfaas::Level::Warn, "no records");
/// ```
#[macro_export]
macro_rules! log {
    ($format:literal $($arguments:tt)*) => {
        $crate::__private::log($crate::Level::Info, ::core::format_args!($format $($arguments)*))
    };
    ($level:expr, $($arguments:tt)+) => {
        $crate::__private::log($level, ::core::format_args!($($arguments)+))
    };
}

/// What the macro calls.
pub fn log(level: Level, arguments: std::fmt::Arguments<'_>) {
    match arguments.as_str() {
        Some(text) => mfaas_shim::host::log(level, text),
        None => mfaas_shim::host::log(level, &arguments.to_string()),
    }
}
