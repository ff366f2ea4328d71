//! Uploads as bytes: every file of `tests/archives`, and three that nobody wants to keep, through
//! the whole pipeline. None is ever unpacked by anything but the reader.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use mfaas_builder::ablation::{Ending, Site};
use mfaas_harness::{Archive, checkout};
use mfaas_rules::Layer;

/// What the table calls an archive that must become a function.
const ACCEPTED: &str = "accepted";

/// One upload and the code that has to refuse it.
struct Upload {
    name: String,
    code: String,
    bytes: Vec<u8>,
}

/// Tries each; answers how many there are and how many did not end as they have to.
pub(crate) fn try_all(site: &Site) -> anyhow::Result<(usize, usize)> {
    let uploads = uploads()?;
    let mut wrong = 0;
    for upload in &uploads {
        let ending = site.deploy(upload.bytes.clone()).with_context(|| upload.name.clone())?;
        let (right, found) = match &ending {
            Ending::Admitted(_) => (upload.code == ACCEPTED, ACCEPTED.to_owned()),
            Ending::Refused(diagnostics) => {
                let first = diagnostics.first().context("refused without a finding")?;
                let right = first.layer == Layer::Archive && first.code.id() == upload.code;
                (right, format!("{:?} {}", first.layer, first.code))
            }
            Ending::Waiting(_) => (false, "review".to_owned()),
        };
        println!("{}  {:32} {found}", if right { "ok   " } else { "WRONG" }, upload.name);
        wrong += usize::from(!right);
    }
    Ok((uploads.len(), wrong))
}

/// The code of each, by name.
pub(crate) fn codes() -> anyhow::Result<BTreeMap<String, String>> {
    Ok(uploads()?.into_iter().map(|upload| (upload.name, upload.code)).collect())
}

fn uploads() -> anyhow::Result<Vec<Upload>> {
    let folder = checkout().join("tests/archives");
    let table = std::fs::read_to_string(folder.join("expect.tsv"))?;
    let mut uploads = vec![gibibyte()?, many_entries(), zip_bomb()];
    for line in table.lines() {
        let mut cells = line.split('\t');
        let (Some(name), Some(code)) = (cells.next(), cells.next()) else { continue };
        let bytes = std::fs::read(folder.join(name)).with_context(|| name.to_owned())?;
        uploads.push(Upload { name: name.to_owned(), code: code.to_owned(), bytes });
    }
    Ok(uploads)
}

/// A gibibyte of zeros in about a megabyte.
fn gibibyte() -> anyhow::Result<Upload> {
    const BYTES: usize = 1 << 30;
    let mut header = tar::Header::new_ustar();
    header.set_path("src/data.bin")?;
    header.set_mode(0o644);
    header.set_size(BYTES as u64);
    header.set_cksum();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(header.as_bytes())?;
    let chunk = vec![0; 1 << 20];
    for _ in 0..BYTES / chunk.len() {
        gzip.write_all(&chunk)?;
    }
    gzip.write_all(&[0; 1024])?;
    Ok(Upload { name: "bomb-1g.tar.gz".to_owned(), code: "MF0103".to_owned(), bytes: gzip.finish()? })
}

fn many_entries() -> Upload {
    let mut archive = Archive::with_function();
    for number in 0..100_000 {
        archive.file(&format!("f{number}"), b"");
    }
    Upload { name: "many-entries.tar.gz".to_owned(), code: "MF0104".to_owned(), bytes: archive.finish() }
}

/// No reader of ours knows the format, so its first bytes are all that matters.
fn zip_bomb() -> Upload {
    let mut bytes = b"PK\x03\x04\x14\0\0\0\x08\0".to_vec();
    bytes.resize(1 << 20, 0);
    Upload { name: "bomb-flat.zip".to_owned(), code: "MF0102".to_owned(), bytes }
}
