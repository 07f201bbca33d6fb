//! Scripts and functions that a worker has compiled.
//!
//! A worker has two interpreters, made at the first use: one for scripts, one for libraries. A
//! script is found by its source, hashed by the keyspace's secret, so that `EVAL` computes no
//! SHA-1; or by its digest. What was compiled of scripts that are gone is forgotten when others are
//! compiled.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;

use tidemill_resp::encode::ReplyBuffer;
use tidemill_resp::request::ArgumentBuffer;
use tidemill_script::{Flags, Host, Interpreter, LoadError, Run, Script};
use tidemill_store::hash;

use crate::limits::{
    COMPILED_BYTES_PER_SOURCE_BYTE, FUNCTION_RUN_BYTES_MAX, LIBRARIES_SEARCHED_AT_ONCE,
    RUN_BUFFER_BYTES_MAX, SCRIPT_RUN_BYTES_MAX,
};
use crate::script::{
    CachedScript, DigestText, Functions, Library, LibraryFunction, Origin, Snapshot, digits_of,
    parse_digest,
};
use crate::shared::Shared;

/// A script of the cache, as this worker compiled it.
#[derive(Debug)]
pub(crate) struct CompiledScript {
    pub(crate) cached: Arc<CachedScript>,
    pub(crate) script: Script,
}

/// A library, as this worker compiled it.
struct CompiledLibrary {
    library: Arc<Library>,
    functions: Vec<Script>,
}

impl CompiledLibrary {
    /// Lets the interpreter forget it, if there is one.
    fn forget_in(self, interpreter: &mut Option<Box<Interpreter>>) {
        if let Some(interpreter) = interpreter {
            self.functions.into_iter().for_each(|script| interpreter.forget(script));
        }
    }
}

/// A function of a library.
#[derive(Clone, Debug)]
pub(crate) struct FunctionRef {
    library: Arc<Library>,
    index: usize,
}

impl FunctionRef {
    pub(crate) fn declared(&self) -> &LibraryFunction {
        &self.library.functions[self.index]
    }
}

/// Interpreter in which a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    /// Of scripts.
    Scripts,
    /// Of libraries.
    Functions,
}

/// Buffers of a run: replies of its commands, and their arguments.
#[derive(Debug, Default)]
pub(crate) struct RunBuffers {
    pub(crate) reply: ReplyBuffer,
    pub(crate) arguments: ArgumentBuffer,
}

impl RunBuffers {
    /// Empties them and gives back what an unusual command took.
    pub(crate) fn shrink(&mut self) {
        self.reply.clear();
        self.reply.shrink(RUN_BUFFER_BYTES_MAX);
        self.arguments.shrink(RUN_BUFFER_BYTES_MAX);
    }
}

/// Hashes of keys that are hashes themselves. Who chooses sources may find digests that begin
/// alike, but does not know the factor.
#[derive(Clone, Copy)]
struct Folding {
    factor: u64,
}

impl Default for Folding {
    fn default() -> Folding {
        Folding { factor: RandomState::new().hash_one(0) | 1 }
    }
}

impl BuildHasher for Folding {
    type Hasher = FoldingHasher;

    fn build_hasher(&self) -> FoldingHasher {
        FoldingHasher { factor: self.factor, hash: 0 }
    }
}

struct FoldingHasher {
    factor: u64,
    hash: u64,
}

impl Hasher for FoldingHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        for byte in rest {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.hash ^ word ^ self.factor) * u128::from(self.factor);
        self.hash = product as u64 ^ (product >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

/// Scripts and functions of one worker.
#[derive(Default)]
pub(crate) struct WorkerScripts {
    // Boxed: they are taken out for each run.
    scripts: Option<Box<Interpreter>>,
    functions: Option<Box<Interpreter>>,
    /// By the digits of the digest in lower case.
    by_digest: HashMap<DigestText, Rc<CompiledScript>, Folding>,
    /// By the hash of the source.
    by_source: HashMap<u64, Rc<CompiledScript>, Folding>,
    removals: u64,
    flushes: u64,
    /// Some may be removed or replaced.
    libraries: HashMap<Box<[u8]>, CompiledLibrary>,
    /// Removals of libraries at which those that were gone were forgotten.
    library_removals: u64,
    snapshot: Arc<Snapshot>,
    snapshot_version: u64,
    /// Scripts have the functions that Valkey has withdrawn.
    pub(crate) offers_withdrawn: bool,
    /// Runs to be given up, since their client is gone, when the interpreter is given back.
    abandoned: Vec<(Machine, Run)>,
}

impl std::fmt::Debug for WorkerScripts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.by_digest.len();
        formatter.debug_struct("WorkerScripts").field("scripts", &count).finish_non_exhaustive()
    }
}

/// No memory for an interpreter.
const NO_INTERPRETER: &[u8] = b"ERR not enough memory";

impl WorkerScripts {
    /// Takes an interpreter out for a run; [`WorkerScripts::give_back`] returns it.
    ///
    /// # Errors
    ///
    /// When there is no memory for it.
    pub(crate) fn take(
        &mut self,
        shared: &Shared,
        machine: Machine,
    ) -> Result<Box<Interpreter>, Vec<u8>> {
        let made = match self.place(machine).take() {
            Some(interpreter) => Ok(interpreter),
            None => make(shared, machine),
        };
        let mut interpreter = made.map_err(|()| NO_INTERPRETER.to_vec())?;
        interpreter.offer_withdrawn_functions(self.offers_withdrawn);
        Ok(interpreter)
    }

    fn place(&mut self, machine: Machine) -> &mut Option<Box<Interpreter>> {
        match machine {
            Machine::Scripts => &mut self.scripts,
            Machine::Functions => &mut self.functions,
        }
    }

    /// Gives an interpreter back.
    pub(crate) fn give_back(&mut self, machine: Machine, mut interpreter: Box<Interpreter>) {
        let of_machine = |(other, _): &mut (Machine, Run)| *other == machine;
        for (_, run) in self.abandoned.extract_if(.., of_machine) {
            interpreter.abandon(run);
        }
        *self.place(machine) = Some(interpreter);
    }

    /// Gives up a suspended run, whose client is gone, and frees what it has.
    pub(crate) fn abandon(&mut self, machine: Machine, run: Run) {
        match self.place(machine) {
            Some(interpreter) => interpreter.abandon(run),
            None => self.abandoned.push((machine, run)),
        }
    }

    /// Compiles a source and puts it into the cache; `origin` is the way by which it comes.
    ///
    /// # Errors
    ///
    /// The message of the compiler.
    pub(crate) fn script_of_source(
        &mut self,
        shared: &Shared,
        source: &[u8],
        flags: Option<Flags>,
        (origin, now_ms): (Origin, u64),
    ) -> Result<Rc<CompiledScript>, Vec<u8>> {
        let hash = hash::hash(shared.keyspace.seed(), source);
        let script = self.compile(shared, source)?;
        let cached = shared.scripts.cache.add(source, flags, (origin, now_ms));
        let compiled = self.keep(cached, script);
        self.by_source.insert(hash, Rc::clone(&compiled));
        Ok(compiled)
    }

    /// The script of a source if it was compiled here before, by which its first line need not be
    /// read.
    pub(crate) fn evaluated(
        &self,
        shared: &Shared,
        source: &[u8],
        now_ms: u64,
    ) -> Option<Rc<CompiledScript>> {
        let found = self.by_source.get(&hash::hash(shared.keyspace.seed(), source))?;
        if *found.cached.source != *source || found.cached.is_gone() {
            return None;
        }
        found.cached.note_use(now_ms);
        Some(Rc::clone(found))
    }

    /// The script of a digest, given by its digits.
    pub(crate) fn script_of_digest(
        &mut self,
        shared: &Shared,
        digits: &[u8],
        now_ms: u64,
    ) -> Option<Rc<CompiledScript>> {
        let digits: &DigestText = digits.try_into().ok()?;
        // Digits in upper case are found at the second look.
        let known = self.by_digest.get(digits).filter(|known| !known.cached.is_gone());
        let compiled = match known {
            Some(known) => Rc::clone(known),
            None => self.script_of_new_digest(shared, digits)?,
        };
        compiled.cached.note_use(now_ms);
        Some(compiled)
    }

    #[cold]
    fn script_of_new_digest(
        &mut self,
        shared: &Shared,
        digits: &DigestText,
    ) -> Option<Rc<CompiledScript>> {
        let digits = digits.map(|digit| digit.to_ascii_lowercase());
        let known = self.by_digest.get(&digits).filter(|known| !known.cached.is_gone());
        if let Some(known) = known {
            return Some(Rc::clone(known));
        }
        let cached = shared.scripts.cache.find(&parse_digest(&digits)?)?;
        let script = self.compile(shared, &cached.source).ok()?;
        Some(self.keep(cached, script))
    }

    fn compile(&mut self, shared: &Shared, source: &[u8]) -> Result<Script, Vec<u8>> {
        if !has_room_to_compile(shared, source) {
            return Err(NOT_ENOUGH_MEMORY.to_vec());
        }
        self.forget_removed(shared);
        let mut interpreter = self.take(shared, Machine::Scripts)?;
        let compiled = interpreter.compile(source);
        self.give_back(Machine::Scripts, interpreter);
        compiled
    }

    /// Keeps a compiled script, in the place of one with the same digest, if that is gone.
    fn keep(&mut self, cached: Arc<CachedScript>, script: Script) -> Rc<CompiledScript> {
        let digest = digits_of(&cached.digest);
        let kept = self.by_digest.get(&digest).filter(|kept| Arc::ptr_eq(&kept.cached, &cached));
        if let Some(kept) = kept.cloned() {
            if let Some(interpreter) = &mut self.scripts {
                interpreter.forget(script);
            }
            return kept;
        }
        let compiled = Rc::new(CompiledScript { cached, script });
        if let Some(old) = self.by_digest.insert(digest, Rc::clone(&compiled))
            && let Some(interpreter) = &mut self.scripts
        {
            interpreter.forget(old.script);
        }
        compiled
    }

    /// Forgets what was compiled of scripts that are gone, once that are many of those here:
    /// clients that put values into their sources evict a script with each call.
    fn forget_removed(&mut self, shared: &Shared) {
        let removals = shared.scripts.cache.removals();
        if removals.wrapping_sub(self.removals) > self.by_digest.len() as u64 / 4 {
            self.forget_gone(removals);
        }
    }

    fn forget_gone(&mut self, removals: u64) {
        self.removals = removals;
        self.by_source.retain(|_, script| !script.cached.is_gone());
        let gone = self.by_digest.extract_if(|_, script| script.cached.is_gone());
        for (_, script) in gone {
            if let Some(interpreter) = &mut self.scripts {
                interpreter.forget(script.script);
            }
        }
        if let Some(interpreter) = &mut self.scripts {
            interpreter.collect();
        }
    }

    /// The function of a name, as it is compiled and as it was declared.
    ///
    /// # Errors
    ///
    /// The text of the error for a library that does not load here.
    pub(crate) fn function(
        &mut self,
        shared: &Shared,
        name: &[u8],
        host: &mut dyn Host,
    ) -> Result<Option<(Script, FunctionRef)>, Vec<u8>> {
        self.refresh_libraries(&shared.scripts.functions);
        let Some((library, index)) = self.snapshot.function(name).cloned() else {
            return Ok(None);
        };
        if let Some(compiled) = self.libraries.get(&library.name)
            && Arc::ptr_eq(&compiled.library, &library)
        {
            let script = compiled.functions[index];
            return Ok(Some((script, FunctionRef { library, index })));
        }
        if let Some(replaced) = self.libraries.remove(&library.name) {
            replaced.forget_in(&mut self.functions);
        }
        let has_room = has_room_to_compile(shared, &library.source);
        if !has_room || !shared.host.has_room(library.bytes()) {
            return Err(NOT_ENOUGH_MEMORY.to_vec());
        }
        let mut interpreter = self.take(shared, Machine::Functions)?;
        let loaded = interpreter.load(&library.source, host);
        self.give_back(Machine::Functions, interpreter);
        let loaded = loaded.map_err(|error| match error {
            LoadError::Syntax(text) => text,
            LoadError::Failed(error) => error.message,
        })?;
        // By their names: a source may register them in another order each time.
        let scripts: HashMap<&[u8], Script> =
            loaded.iter().map(|function| (&*function.name, function.script)).collect();
        let script_of = |function: &LibraryFunction| scripts.get(&*function.name).copied();
        let functions: Option<Vec<Script>> = library.functions.iter().map(script_of).collect();
        let Some(functions) = functions else {
            return Err(b"ERR Function not found".to_vec());
        };
        let script = functions[index];
        let compiled = CompiledLibrary { library: Arc::clone(&library), functions };
        self.libraries.insert(library.name.clone(), compiled);
        Ok(Some((script, FunctionRef { library, index })))
    }

    /// Compiles a library, so that its first call need not.
    pub(crate) fn prepare_library(
        &mut self,
        shared: &Shared,
        library: &Library,
        host: &mut dyn Host,
    ) {
        if let Some(first) = library.functions.first() {
            // An error is answered to who calls the function.
            let _ = self.function(shared, &first.name, host);
        }
    }

    /// Gives the memory of scripts back that were flushed, and that of libraries once there is none
    /// any more.
    pub(crate) fn shrink(&mut self, shared: &Shared) {
        if self.scripts.is_some() {
            let cache = &shared.scripts.cache;
            let flushes = cache.flushes();
            if flushes != self.flushes {
                self.flushes = flushes;
                self.forget_gone(cache.removals());
            }
        }
        let functions = &shared.scripts.functions;
        if self.functions.is_some()
            && functions.version() != self.snapshot_version
            && functions.snapshot().function_count() == 0
        {
            self.refresh_libraries(functions);
        }
    }

    /// Looks at the libraries that there are now. Forgets those that were replaced or deleted: at
    /// once among few, since one of them may have much memory, else once they are a quarter of
    /// those here. With the last one goes the interpreter.
    fn refresh_libraries(&mut self, functions: &Functions) {
        let version = functions.version();
        if version == self.snapshot_version {
            return;
        }
        self.snapshot = functions.snapshot();
        self.snapshot_version = version;
        let removals = self.snapshot.removals();
        let gone_max = match self.libraries.len() {
            ..=LIBRARIES_SEARCHED_AT_ONCE => 0,
            count => count as u64 / 4,
        };
        if removals - self.library_removals <= gone_max {
            return;
        }
        self.library_removals = removals;
        let snapshot = &self.snapshot;
        let gone = self.libraries.extract_if(|name, compiled| {
            snapshot.library(name).is_none_or(|now| !Arc::ptr_eq(now, &compiled.library))
        });
        gone.for_each(|(_, library)| library.forget_in(&mut self.functions));
        if self.snapshot.function_count() == 0
            && self.functions.as_ref().is_some_and(|interpreter| interpreter.is_idle())
        {
            self.functions = None;
            self.abandoned.retain(|(machine, _)| *machine != Machine::Functions);
        }
    }

    /// Bytes of the interpreters: of scripts, of libraries.
    pub(crate) fn used_bytes(&self) -> (usize, usize) {
        let used = |interpreter: &Option<Box<Interpreter>>| {
            interpreter.as_ref().map_or(0, |interpreter| interpreter.used_bytes())
        };
        (used(&self.scripts), used(&self.functions))
    }
}

/// Text for a source, or an interpreter, that there is no memory for.
pub(crate) const NOT_ENOUGH_MEMORY: &[u8] = b"not enough memory";

/// True if there is memory for a source and for what it is compiled to: many small blocks, which
/// cannot fail one by one. Asked of small sources too, of which clients can send any number.
pub(crate) fn has_room_to_compile(shared: &Shared, source: &[u8]) -> bool {
    shared.host.has_room(source.len().saturating_mul(COMPILED_BYTES_PER_SOURCE_BYTE))
}

/// An interpreter without scripts.
pub(crate) fn make(shared: &Shared, machine: Machine) -> Result<Box<Interpreter>, ()> {
    let identity = shared.scripts.identity();
    let made = match machine {
        Machine::Scripts => Interpreter::for_scripts(identity, SCRIPT_RUN_BYTES_MAX),
        Machine::Functions => Interpreter::for_functions(identity, FUNCTION_RUN_BYTES_MAX),
    };
    made.map(Box::new).map_err(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 1_000;

    #[test]
    fn libraries_that_are_gone_are_looked_for_now_and_then() {
        let functions = Functions::default();
        let mut scripts = WorkerScripts::default();
        for number in 0..COUNT {
            let name: Box<[u8]> = number.to_string().into_bytes().into();
            let library =
                Arc::new(Library { name: name.clone(), source: [].into(), functions: Vec::new() });
            let compiled = CompiledLibrary { library: Arc::clone(&library), functions: Vec::new() };
            scripts.libraries.insert(name, compiled);
            functions.change(|present| present.add(library, false)).expect("its name is new");
        }
        let mut searches = 0;
        for number in 0..COUNT {
            let name = number.to_string();
            let removed = functions.change(|all| Ok::<_, ()>(all.remove(name.as_bytes())));
            assert_eq!(removed, Ok(true));
            let before = scripts.libraries.len();
            scripts.refresh_libraries(&functions);
            searches += usize::from(scripts.libraries.len() < before);
            let gone = scripts.libraries.len() - (COUNT - number - 1);
            let most = if before <= LIBRARIES_SEARCHED_AT_ONCE { 0 } else { before / 4 };
            assert!(gone <= most, "{gone} of {before} are gone");
        }
        assert!(scripts.libraries.is_empty());
        let most = LIBRARIES_SEARCHED_AT_ONCE + 50;
        assert!(searches < most, "{searches} searches for {COUNT} libraries");
    }
}
