//! Loading of libraries: their first line, a run of their source, the names that they register.

use std::collections::{HashSet, TryReserveError};
use std::sync::Arc;

use tidemill_rdb::VersionCheck;
use tidemill_rdb::payload::Payload;
use tidemill_script::{Abort, Answer, Host, Interrupt, LoadError, Protocol};

use super::shebang::{Shebang, value_of};
use crate::limits::{FUNCTION_COPIES_MAX, LIBRARY_LOAD_MS_MAX};
use crate::script::{
    ENGINE, Library, LibraryFunction, Policy, RestoreError, Snapshot, UndeclaredKeys,
    function_bytes,
};
use crate::shared::Shared;
use crate::worker::scripts::{Machine, NOT_ENOUGH_MEMORY, has_room_to_compile, make};

/// Caller of a library that is loaded: it may take a while, and calls no command.
pub(crate) struct Loader<'k> {
    shared: &'k Shared,
    until_us: u64,
}

impl<'k> Loader<'k> {
    pub(crate) fn new(shared: &'k Shared) -> Loader<'k> {
        let until_us = shared.clock.monotonic_us() + LIBRARY_LOAD_MS_MAX * 1_000;
        Loader { shared, until_us }
    }
}

impl Host for Loader<'_> {
    fn call(&mut self, _: &[&[u8]], _: Protocol) -> Result<Answer<'_>, Abort> {
        Err(Abort("no command is called while a library is loaded"))
    }

    fn interrupt(&mut self, _: bool) -> Interrupt {
        match self.shared.clock.monotonic_us() < self.until_us {
            true => Interrupt::Continue,
            false => Interrupt::Kill("FUNCTION LOAD timeout"),
        }
    }

    fn log(&mut self, level: u8, message: &[u8]) {
        self.shared.host.log(level, message);
    }

    fn may_run(&mut self, _: &[&[u8]]) -> Result<Option<bool>, TryReserveError> {
        Ok(None)
    }

    fn cpu_seconds(&mut self) -> f64 {
        self.shared.clock.monotonic_us() as f64 / 1e6
    }
}

fn is_name(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The name in the first line of a library.
///
/// # Errors
///
/// Text of the error, without its code.
pub(super) fn name_of(source: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
    let line = Shebang::parse(source).ok_or(b"Missing library metadata")?;
    let line = line.map_err(|_| b"Invalid library metadata")?;
    let mut name: Option<Vec<u8>> = None;
    for option in line.options {
        let Some(value) = value_of(&option, b"name") else {
            return Err([b"Invalid metadata value given: ", &option[..]].concat());
        };
        if name.replace(value.to_vec()).is_some() {
            let text = b"Invalid metadata value, name argument was given multiple times";
            return Err(text.to_vec());
        }
    }
    let name = name.ok_or(b"Library name was not given")?;
    if !is_name(&name) {
        let text = b"Library names can only contain letters, numbers, or underscores(_) and must \
                     be at least one character long";
        return Err(text.to_vec());
    }
    if !line.engine.eq_ignore_ascii_case(ENGINE.as_bytes()) {
        return Err([b"Engine '", &line.engine[..], b"' not found"].concat());
    }
    Ok(name)
}

/// Runs the source of a library whose name was read, and gathers what it registers.
///
/// # Errors
///
/// Text of the error, without its code.
pub(super) fn load(shared: &Shared, name: &[u8], source: &[u8]) -> Result<Arc<Library>, Vec<u8>> {
    if !has_room_to_compile(shared, source) {
        return Err([b"Error compiling function: ", NOT_ENOUGH_MEMORY].concat());
    }
    // In an interpreter of its own: a source that fails leaves nothing behind.
    let mut interpreter =
        make(shared, Machine::Functions).map_err(|()| NOT_ENOUGH_MEMORY.to_vec())?;
    let loaded = interpreter.load(source, &mut Loader::new(shared));
    let loaded = loaded.map_err(|error| match error {
        LoadError::Syntax(text) => [b"Error compiling function: ", &text[..]].concat(),
        LoadError::Failed(error) => [b"Error registering functions: ", &error.message[..]].concat(),
    })?;
    let bytes = loaded.iter().map(|each| function_bytes(&each.name, each.description.as_deref()));
    // A source may make names that are longer than itself.
    if !shared.host.has_room(bytes.sum::<usize>().saturating_mul(FUNCTION_COPIES_MAX)) {
        return Err([b"Error registering functions: ", NOT_ENOUGH_MEMORY].concat());
    }
    let mut functions: Vec<LibraryFunction> = Vec::with_capacity(loaded.len());
    let mut names: HashSet<Vec<u8>> = HashSet::with_capacity(loaded.len());
    for function in loaded {
        if !is_name(&function.name) {
            let text = b"Function names can only contain letters, numbers, or underscores(_) and \
                         must be at least one character long";
            return Err(text.to_vec());
        }
        if !names.insert(function.name.to_ascii_lowercase()) {
            return Err(b"Function already exists in the library".to_vec());
        }
        functions.push(LibraryFunction {
            name: function.name.into(),
            description: function.description.map(Into::into),
            flags: function.flags,
            undeclared: UndeclaredKeys::default(),
        });
    }
    if functions.is_empty() {
        return Err(b"No functions registered".to_vec());
    }
    Ok(Arc::new(Library { name: name.into(), source: source.into(), functions }))
}

/// Makes the libraries of a payload of `FUNCTION DUMP`: all of them or none.
///
/// # Errors
///
/// [`RestoreError`].
pub fn restore(
    shared: &Shared,
    payload: &[u8],
    check: VersionCheck,
    policy: Policy,
) -> Result<(), RestoreError> {
    let restored = read_payload(shared, payload, check)?;
    shared.scripts.functions.change(|present| merge(present, &restored, policy))
}

/// Makes libraries from their sources: all of them or none.
///
/// # Errors
///
/// [`RestoreError::Library`].
pub fn restore_sources<'s>(
    shared: &Shared,
    sources: impl IntoIterator<Item = &'s [u8]>,
    policy: Policy,
) -> Result<(), RestoreError> {
    let restored = load_all(shared, sources)?;
    shared.scripts.functions.change(|present| merge(present, &restored, policy))
}

/// Loads the libraries of a payload of `FUNCTION DUMP`.
///
/// # Errors
///
/// [`RestoreError`].
pub(super) fn read_payload(
    shared: &Shared,
    payload: &[u8],
    check: VersionCheck,
) -> Result<Snapshot, RestoreError> {
    let payload = Payload::new(payload, check, shared.verifies_checksums());
    let payload = payload.map_err(|_| RestoreError::Payload)?;
    let not_functions = || RestoreError::Library(b"given type is not a function".to_vec());
    let sources = payload.functions().ok_or_else(not_functions)?;
    load_all(shared, sources.iter().map(|source| &source[..]))
}

fn load_all<'s>(
    shared: &Shared,
    sources: impl IntoIterator<Item = &'s [u8]>,
) -> Result<Snapshot, RestoreError> {
    let mut loaded = Snapshot::default();
    for source in sources {
        let name = name_of(source).map_err(RestoreError::Library)?;
        let library = load(shared, &name, source).map_err(RestoreError::Library)?;
        loaded.add(library, false).map_err(RestoreError::Library)?;
    }
    Ok(loaded)
}

/// Adds libraries to those that are there.
///
/// # Errors
///
/// [`RestoreError::Library`].
pub(super) fn merge(
    present: &mut Snapshot,
    restored: &Snapshot,
    policy: Policy,
) -> Result<(), RestoreError> {
    if policy == Policy::Flush {
        present.clear();
    }
    for library in restored.libraries() {
        if policy == Policy::Append && present.library(&library.name).is_some() {
            let text = [b"Library ", &library.name[..], b" already exists"].concat();
            return Err(RestoreError::Library(text));
        }
        present.add(Arc::clone(library), true).map_err(RestoreError::Library)?;
    }
    Ok(())
}
