//! Nothing: this package exists so that cargo resolves and builds what Cargo.toml offers.
