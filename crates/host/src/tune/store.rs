//! Writing below a root: settings of the kernel, and files that are replaced in one step.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags};

use super::value::{in_force, printed};
use crate::facts::{channels, channels_interface, set_channels};
use crate::{ReadError, Refusal, Root};

/// Suffix of the file that is about to replace another; left behind only by a process that was
/// killed.
const NEW: &str = ".tidemill-new";

/// Interface whose number of queues a path of the running machine means.
fn queues_of<'a>(root: &Root, path: &'a str) -> Option<&'a str> {
    channels_interface(path).filter(|_| root.is_live())
}

/// The value in force in a setting's file.
pub(super) fn value(root: &Root, path: &str) -> Result<String, ReadError> {
    if let Some(interface) = queues_of(root, path) {
        let absent = || ReadError {
            path: path.to_owned(),
            refusal: Refusal::Absent,
            errno: libc::EOPNOTSUPP,
        };
        let found = channels(root, interface)?.ok_or_else(absent)?;
        return Ok(found.combined.to_string());
    }
    Ok(in_force(&root.text(path)?).to_owned())
}

/// Writes a value to a setting. Below a captured root the file is replaced, because only the
/// kernel's own files take a value in one piece.
///
/// # Errors
/// The refusal, of the opening or of the write; nothing was changed then.
pub(super) fn set_value(root: &Root, path: &str, value: &str) -> Result<(), ReadError> {
    let fail = |error: io::Error| ReadError::from_io(path, &error);
    if let Some(interface) = queues_of(root, path) {
        return set_channels(interface, value).map_err(fail);
    }
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut file = root.open_file(path, flags).map_err(fail)?;
    if root.is_live() {
        return file.write_all(format!("{value}\n").as_bytes()).map_err(fail);
    }
    let text = printed(&root.text(path)?, value);
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&file).map_err(|e| fail(e.into()))?.st_mode);
    replace(root, path, &text, mode)
}

/// Replaces or creates a file in one step that survives a loss of power; makes missing directories.
///
/// # Errors
/// The refusal; the old file is still whole then.
pub(super) fn replace(root: &Root, path: &str, text: &str, mode: Mode) -> Result<(), ReadError> {
    let fail = |error: io::Error| ReadError::from_io(path, &error);
    let (parent, name) = split(path);
    let directory = make_directory(root, parent, Mode::from_raw_mode(0o755)).map_err(fail)?;
    replace_in(&directory, name, text, mode).map_err(|error| {
        sweep(root, path);
        fail(error)
    })
}

fn replace_in(directory: &OwnedFd, name: &str, text: &str, mode: Mode) -> io::Result<()> {
    let new = format!(".{name}{NEW}");
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(directory, &*new, flags, mode)?);
    // The process's umask and a leftover's mode must not decide.
    rustix::fs::fchmod(&file, mode)?;
    file.write_all(text.as_bytes())?;
    rustix::fs::fsync(&file)?;
    rustix::fs::renameat(directory, &*new, directory, name)?;
    rustix::fs::fsync(directory)?;
    Ok(())
}

/// Removes a file and what a killed replacement of it left; absent files are no error.
///
/// # Errors
/// The refusal.
pub(super) fn remove(root: &Root, path: &str) -> Result<(), ReadError> {
    let fail = |error: io::Error| ReadError::from_io(path, &error);
    let (parent, name) = split(path);
    let directory = match root.open_file(parent, OFlags::RDONLY | OFlags::DIRECTORY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        directory => directory.map_err(fail)?,
    };
    for name in [name, &format!(".{name}{NEW}")] {
        match rustix::fs::unlinkat(&directory, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(errno) => return Err(fail(errno.into())),
        }
    }
    rustix::fs::fsync(&directory).map_err(|errno| fail(errno.into()))
}

/// Removes what a killed replacement of the file left; errors are left to the replacement that
/// follows or not.
pub(super) fn sweep(root: &Root, path: &str) {
    let (parent, name) = split(path);
    if let Ok(directory) = root.open_file(parent, OFlags::RDONLY | OFlags::DIRECTORY) {
        let _ = rustix::fs::unlinkat(&directory, format!(".{name}{NEW}"), AtFlags::empty());
    }
}

/// As [`sweep`], for a setting: below a captured root those are replaced, too.
pub(super) fn sweep_value(root: &Root, path: &str) {
    if !root.is_live() {
        sweep(root, path);
    }
}

/// Removes a directory when it is empty, such as that of a unit's drop-ins.
pub(super) fn remove_empty_directory(root: &Root, path: &str) {
    let (parent, name) = split(path);
    if let Ok(directory) = root.open_file(parent, OFlags::RDONLY | OFlags::DIRECTORY) {
        let _ = rustix::fs::unlinkat(&directory, name, AtFlags::REMOVEDIR);
    }
}

/// Opens a directory below the root, making those that are missing with this mode.
pub(super) fn make_directory(root: &Root, path: &str, mode: Mode) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    match root.open_file(path, flags) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.len() > 1 => {}
        opened => return Ok(opened?.into()),
    }
    let (parent, name) = split(path);
    let above = make_directory(root, parent, Mode::from_raw_mode(0o755))?;
    match rustix::fs::mkdirat(above.as_fd(), name, mode) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    rustix::fs::fsync(&above)?;
    Ok(root.open_file(path, flags)?.into())
}

fn split(path: &str) -> (&str, &str) {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    (if parent.is_empty() { "/" } else { parent }, name)
}
