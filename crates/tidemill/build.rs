//! Tells the binary which commit it is built from, in `TIDEMILL_COMMIT`: of the checkout by `git`,
//! in an archive that `git archive` made from the file `COMMIT`, `unknown` elsewhere. Runs again
//! only when HEAD moves.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits of a commit that are shown.
pub const DIGITS: usize = 12;

/// A commit, and the files that change when another one is checked out.
pub struct Commit {
    /// Its first digits, or `unknown`.
    pub name: String,
    /// The watched files that exist.
    pub watched: Vec<PathBuf>,
}

fn main() {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let commit = commit(&package);
    println!("cargo::rustc-env=TIDEMILL_COMMIT={}", commit.name);
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=COMMIT");
    for path in commit.watched {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// The commit that the package in this folder is of.
pub fn commit(package: &Path) -> Commit {
    let archived = std::fs::read_to_string(package.join("COMMIT")).unwrap_or_default();
    if let Some(name) = shown(&archived) {
        return Commit { name, watched: Vec::new() };
    }
    checked_out(package).unwrap_or_else(|| Commit { name: "unknown".into(), watched: Vec::new() })
}

fn shown(text: &str) -> Option<String> {
    let text = text.trim();
    let is_commit = text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| text[..DIGITS].to_owned())
}

fn checked_out(package: &Path) -> Option<Commit> {
    let workspace = package.join("../..").canonicalize().ok()?;
    // A tree without a repository may lie in another project's.
    let top = Path::new(&git(&workspace, ["rev-parse", "--show-toplevel"])?).canonicalize().ok()?;
    if top != workspace {
        return None;
    }
    let name = shown(&git(&workspace, ["rev-parse", "HEAD"])?)?;
    let mut files = vec!["HEAD".to_owned(), "logs/HEAD".to_owned()];
    files.extend(git(&workspace, ["symbolic-ref", "--quiet", "HEAD"]));
    let path = |file: &String| {
        git(&workspace, ["rev-parse", "--git-path", file]).map(|path| workspace.join(path))
    };
    // One that is missing would make the script run at each build.
    let watched = files.iter().filter_map(path).filter(|path| path.exists()).collect();
    Some(Commit { name, watched })
}

/// Output of a git command; none when it fails or is not there. The repository may be another
/// user's.
fn git<const COUNT: usize>(folder: &Path, arguments: [&str; COUNT]) -> Option<String> {
    let mut command = Command::new("git");
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"] {
        command.env_remove(variable);
    }
    command.arg("-C").arg(folder).args(["-c", "safe.directory=*"]);
    let output = command.args(arguments.map(OsStr::new)).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}
