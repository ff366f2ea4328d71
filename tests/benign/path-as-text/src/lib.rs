//! Paths as text: no file is looked at.
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

fn normal(path: &Path) -> Result<PathBuf, &'static str> {
    path.components().try_fold(PathBuf::new(), |mut out, part| {
        match part {
            Component::Prefix(_) | Component::CurDir => {}
            Component::RootDir => out.push("/"),
            Component::ParentDir => {
                if !out.pop() {
                    return Err("leaves the root");
                }
            }
            Component::Normal(name) => out.push(name),
        }
        Ok(out)
    })
}

/// How to get from one directory to the other.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

fn text(part: Option<&OsStr>) -> &str {
    part.and_then(OsStr::to_str).unwrap_or("-")
}

fn parts(path: &Path) -> String {
    let parent = path.parent().map_or_else(|| "-".into(), Path::to_string_lossy);
    let kind = if path.is_absolute() { "absolute" } else { "relative" };
    format!("parent {parent}, stem {}, extension {}, {kind}", text(path.file_stem()), text(path.extension()))
}

fn answer(line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split(' ').collect();
    let shown = |path: PathBuf| path.display().to_string();
    Ok(match words[..] {
        ["normal", path] => shown(normal(Path::new(path))?),
        ["parts", path] => parts(Path::new(path)),
        ["relative", from, to] => shown(relative(Path::new(from), Path::new(to))),
        ["swap", path, extension] => shown(Path::new(path).with_extension(extension)),
        ["strip", prefix, path] => {
            shown(Path::new(path).strip_prefix(prefix).map_err(|error| error.to_string())?.to_path_buf())
        }
        _ => return Err("unknown command".to_owned()),
    })
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let line = String::from_utf8_lossy(request);
    answer(&line).unwrap_or_else(|error| format!("refused: {error}")).into_bytes()
}
