//! Configuration files on the disk. Everything here blocks; after start, it runs on a worker only
//! for `CONFIG REWRITE`, `ACL LOAD`, `ACL SAVE` and `CONFIG SET` of certificates.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_engine::config::Files;

use crate::limits::CONFIGURED_FILE_BYTES_MAX;

/// Files of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFiles;

impl Files for DiskFiles {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        read_file(path)
    }

    fn matching(&self, pattern: &str) -> Vec<String> {
        // A bracket that is never closed is a character like others.
        let Ok(paths) = glob::glob(pattern) else { return vec![pattern.to_owned()] };
        let paths = paths.flatten().filter(|path| !has_hidden_part(path, Path::new(pattern)));
        paths.map(|path| path.to_string_lossy().into_owned()).collect()
    }

    fn enter(&self, directory: &str) -> io::Result<()> {
        std::env::set_current_dir(directory)
    }

    fn standard_input(&self) -> io::Result<Vec<u8>> {
        let mut contents = Vec::new();
        io::stdin().read_to_end(&mut contents)?;
        Ok(contents)
    }
}

/// Contents of a file that the configuration names, which may be a pipe: blocks until it ends.
///
/// # Errors
///
/// It cannot be read, or is a pipe or a device that has no end within 64 MiB.
pub(crate) fn read_file(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut contents = Vec::new();
    if file.metadata()?.is_file() {
        file.read_to_end(&mut contents)?;
        return Ok(contents);
    }
    file.take(CONFIGURED_FILE_BYTES_MAX + 1).read_to_end(&mut contents)?;
    if contents.len() as u64 > CONFIGURED_FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "longer than 64 MiB"));
    }
    Ok(contents)
}

/// True if a part of a path begins with a dot that its part of the pattern does not have: as in a
/// shell, wildcards do not stand for it. The library's own option panics at names that are not
/// UTF-8.
fn has_hidden_part(path: &Path, pattern: &Path) -> bool {
    let is_hidden = |part: Component<'_>| match part {
        Component::Normal(name) => name.as_encoded_bytes().starts_with(b"."),
        _ => false,
    };
    let mut pairs = path.components().rev().zip(pattern.components().rev());
    pairs.any(|(part, wanted)| is_hidden(part) && !is_hidden(wanted))
}

/// Puts `contents` in the place of the file at `path`, as a whole or not at all, also across a
/// crash and beside other calls: a new file beside it is written and synced, takes over the
/// permissions, is renamed, and the directory synced. A symbolic link is followed. A file that is
/// not there is made, for its owner alone.
///
/// # Errors
///
/// When any step fails; the old file is then untouched, unless only the last step, syncing the
/// directory, failed.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let path = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::path::absolute(path)?,
        found => found?,
    };
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let temporary = temporary_beside(&path)?;
    let written = write_synced(&temporary, contents, &path)
        .and_then(|()| fs::rename(&temporary, &path))
        .inspect_err(|_| drop(fs::remove_file(&temporary)));
    written?;
    File::open(directory)?.sync_all()
}

/// Name that no other call has.
fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    // Relaxed: a number that is given once, and orders nothing.
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    Ok(path.with_file_name(format!(".{name}.{}.{call}.tmp", std::process::id())))
}

fn write_synced(temporary: &Path, contents: &[u8], original: &Path) -> io::Result<()> {
    // A file with passwords must not be readable by others for a moment either: the mode comes
    // before the contents.
    let mut file = OpenOptions::new();
    // A process of the same number may have left its file in a crash.
    let file = file.write(true).create(true).truncate(true).mode(0o600);
    let mut file = file.open(temporary)?;
    match fs::metadata(original) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        original => file.set_permissions(original?.permissions())?,
    }
    file.write_all(contents)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tidemill_engine::config::{CommandLine, load};

    use super::*;

    /// A directory of our own that goes away with the value.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            let path = std::env::temp_dir().join(format!("tidemill-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a directory of our own");
            Directory(path)
        }

        fn file(&self, name: &str, contents: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, contents).expect("a file of our own");
            path
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn replacing_keeps_the_mode_and_leaves_nothing_beside() {
        let directory = Directory::new("replace");
        let path = directory.file("a.conf", "old");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("our file");
        let link = directory.0.join("link.conf");
        std::os::unix::fs::symlink(&path, &link).expect("our directory");
        replace(&link, b"new").expect("a writable directory");
        assert_eq!(fs::read(&path).expect("the file is there"), b"new");
        assert!(fs::symlink_metadata(&link).expect("the link is there").is_symlink());
        let mode = fs::metadata(&path).expect("the file is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(fs::read_dir(&directory.0).expect("our directory").count(), 2);
        replace(&directory.0.join("none.conf"), b"new").expect("a file that was not there");
        let made = fs::metadata(directory.0.join("none.conf")).expect("it is there");
        assert_eq!((made.len(), made.permissions().mode() & 0o777), (3, 0o600));
        assert!(replace(&directory.0.join("none/a.conf"), b"").is_err());
    }

    #[test]
    fn replacing_takes_over_a_file_that_a_crash_has_left() {
        let directory = Directory::new("replace-behind-crash");
        let path = directory.file("a.conf", "old");
        let next = temporary_beside(&path).expect("a name");
        let (stem, number) = next.to_str().and_then(|name| name.rsplit_once('.')).expect("tmp");
        assert_eq!(number, "tmp");
        let (stem, number) = stem.rsplit_once('.').expect("the number of the call");
        let number: u64 = number.parse().expect("a number");
        // Other tests take some of them.
        for number in number..number + 1000 {
            fs::write(format!("{stem}.{number}.tmp"), "longer than the new contents")
                .expect("ours");
        }
        replace(&path, b"new").expect("a writable directory");
        assert_eq!(fs::read(&path).expect("the file is there"), b"new");
    }

    #[test]
    fn replacing_beside_other_calls_leaves_the_whole_of_one() {
        let directory = Directory::new("replace-beside");
        let path = directory.file("a.conf", "");
        let whole = |call: u8| vec![b'a' + call; 100_000];
        std::thread::scope(|scope| {
            for call in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..50 {
                        replace(path, &whole(call)).expect("a writable directory");
                        let read = fs::read(path).expect("the file is there");
                        assert!((0..4).any(|call| read == whole(call)), "a whole file");
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(&directory.0).expect("our directory").count(), 1);
    }

    #[test]
    fn included_files_are_found_by_pattern_in_order() {
        let directory = Directory::new("include");
        directory.file("10.conf", "hz 20\ntimeout 5\n");
        directory.file("20.conf", "hz 30\n");
        directory.file(".99-old.conf", "hz 40\n");
        let main = directory.file("main", &format!("include {}/*.conf\n", directory.0.display()));
        let arguments = [main.to_string_lossy().into_owned()];
        let command_line = CommandLine::parse(arguments);
        let loaded = load(&command_line, &DiskFiles).expect("all is right");
        assert_eq!((loaded.value("hz"), loaded.value("timeout")), (Some("30"), Some("5")));
    }

    #[test]
    fn wildcards_stand_for_no_first_dot_and_an_open_bracket_for_itself() {
        let directory = Directory::new("include-hidden");
        for name in [".hidden", "seen", "open["] {
            directory.file(name, "");
        }
        let found = |pattern: &str| {
            let paths = DiskFiles.matching(&format!("{}/{pattern}", directory.0.display()));
            let name = |path: &String| path.rsplit('/').next().unwrap_or_default().to_owned();
            paths.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(found("*"), ["open[", "seen"]);
        assert_eq!(found(".hid*"), [".hidden"]);
        assert_eq!(found("?hidden"), [""; 0]);
        assert_eq!(found("open["), ["open["]);
    }

    /// Files of the machine, read from where the tests run.
    struct StayingFiles;

    impl Files for StayingFiles {
        fn read(&self, path: &str) -> io::Result<Vec<u8>> {
            DiskFiles.read(path)
        }

        fn matching(&self, pattern: &str) -> Vec<String> {
            DiskFiles.matching(pattern)
        }

        fn enter(&self, _directory: &str) -> io::Result<()> {
            Ok(())
        }

        fn standard_input(&self) -> io::Result<Vec<u8>> {
            DiskFiles.standard_input()
        }
    }

    #[test]
    fn file_without_an_end_is_refused() {
        let error = read_file("/dev/zero").expect_err("it has no end");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{error}");
    }

    #[test]
    fn debians_redis_conf_loads() {
        let path = "/etc/redis/redis.conf";
        if fs::read(path).is_err() {
            eprintln!("skipped: cannot read {path}, which the package redis-server installs");
            return;
        }
        let command_line = CommandLine::parse([path.to_owned()]);
        let loaded = load(&command_line, &StayingFiles).expect("every line is known");
        assert_eq!(loaded.value("pidfile"), Some("/run/redis/redis-server.pid"));
    }
}
