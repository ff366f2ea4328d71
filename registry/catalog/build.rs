//! Tells cargo to embed the migrations again when one is added or changed.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
