//! The build script finds the commit in a checkout and in an archive, and none elsewhere.

use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../../build.rs"]
#[allow(dead_code, reason = "main is the script's")]
mod build;

fn git(folder: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
    let output = Command::new("git").arg("-C").arg(folder).args(identity).args(arguments).output();
    let output = output.expect("git is there");
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("git prints text").trim().to_owned()
}

/// The files that the script reads, in a folder as the workspace has them. Returns the package.
fn package(workspace: &Path) -> PathBuf {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = workspace.join("crates/tidemill");
    std::fs::create_dir_all(&package).expect("a folder");
    std::fs::copy(ours.join("COMMIT"), package.join("COMMIT")).expect("a copy");
    let attributes = "crates/tidemill/COMMIT export-subst\n";
    std::fs::write(workspace.join(".gitattributes"), attributes).expect("a file");
    package
}

#[test]
fn a_commit_is_that_of_the_checkout_or_the_archive() {
    let folder = tempfile::tempdir().expect("a folder");
    let workspace = folder.path().join("checkout");
    let ours = package(&workspace);
    assert_eq!(build::commit(&ours).name, "unknown", "there is no repository");
    git(&workspace, &["init", "--quiet", "--initial-branch=main"]);
    assert_eq!(build::commit(&ours).name, "unknown", "there is no commit");
    git(&workspace, &["add", "."]);
    git(&workspace, &["commit", "--quiet", "--message=one"]);
    let head = git(&workspace, &["rev-parse", "HEAD"]);
    let found = build::commit(&ours);
    assert_eq!(found.name, head[..build::DIGITS]);
    let changed = |path: &PathBuf| {
        std::fs::metadata(path).and_then(|file| file.modified()).expect("cargo looks at it")
    };
    let before: Vec<_> = found.watched.iter().map(changed).collect();
    std::fs::write(workspace.join("other"), "").expect("a file");
    git(&workspace, &["add", "."]);
    assert_eq!(found.watched.iter().map(changed).collect::<Vec<_>>(), before, "HEAD stayed");
    git(&workspace, &["commit", "--quiet", "--message=two"]);
    assert_ne!(found.watched.iter().map(changed).collect::<Vec<_>>(), before, "HEAD moved");

    let second = folder.path().join("second");
    git(&workspace, &["worktree", "add", "--quiet", "--detach", "../second", &head]);
    assert_eq!(build::commit(&second.join("crates/tidemill")).name, head[..build::DIGITS]);

    // An archive names its commit, also inside another project's repository.
    let archive = folder.path().join("archive.tar");
    git(&workspace, &["archive", "--output=../archive.tar", &head]);
    let inside = workspace.join("inside");
    std::fs::create_dir(&inside).expect("a folder");
    let status = Command::new("tar").arg("-C").arg(&inside).arg("-xf").arg(&archive).status();
    assert!(status.expect("tar is there").success());
    assert_eq!(build::commit(&inside.join("crates/tidemill")).name, head[..build::DIGITS]);
    let copied = package(&workspace.join("copied"));
    assert_eq!(build::commit(&copied).name, "unknown", "the repository is another one's");
}
