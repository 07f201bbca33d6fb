//! A host with a small store, and Valkey as a child process to compare with.

use std::collections::{BTreeMap, TryReserveError};

use tidemill_resp::reply::Value;
use tidemill_script::{
    Abort, Answer, Host, Identity, Interpreter, Interrupt, Progress, Protocol, Reply, ScriptError,
};
use tidemill_testkit::valkey::{Connection, Valkey};

/// Names and versions of the Valkey that the tests compare with.
pub fn identity() -> Identity {
    Identity {
        server_name: "valkey".to_owned(),
        version: "9.1.2".to_owned(),
        version_number: 590_082,
        redis_version: "7.2.4".to_owned(),
        redis_version_number: 459_268,
    }
}

/// A host with the commands that the scripts of the tests use.
#[derive(Default)]
pub struct Store {
    pub strings: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Questions after which a run is killed.
    pub interrupts_max: Option<u64>,
    pub interrupts: u64,
    /// Every n-th question suspends the run.
    pub suspend_every: Option<u64>,
    /// Text of the last reply, if it was a bulk string.
    pub bulk: Vec<u8>,
}

impl Host for Store {
    fn call(&mut self, arguments: &[&[u8]], _: Protocol) -> Result<Answer<'_>, Abort> {
        Ok(match self.execute(arguments) {
            Reply::Bulk(text) => {
                self.bulk = text;
                Answer::Bulk(&self.bulk)
            }
            reply => Answer::Reply(reply),
        })
    }

    fn interrupt(&mut self, _: bool) -> Interrupt {
        self.interrupts += 1;
        if let Some(most) = self.interrupts_max
            && self.interrupts > most
        {
            assert!(self.interrupts < most + 1_000, "a killed run goes on");
            return Interrupt::Kill("Script killed by user with SCRIPT KILL.");
        }
        if self.suspend_every.is_some_and(|every| self.interrupts.is_multiple_of(every)) {
            return Interrupt::Suspend;
        }
        Interrupt::Continue
    }

    fn log(&mut self, _: u8, _: &[u8]) {}

    fn may_run(&mut self, arguments: &[&[u8]]) -> Result<Option<bool>, TryReserveError> {
        Ok(matches!(arguments[0], b"get" | b"set").then_some(true))
    }

    fn cpu_seconds(&mut self) -> f64 {
        1.5
    }
}

impl Store {
    fn execute(&mut self, arguments: &[&[u8]]) -> Reply {
        let name = arguments[0].to_ascii_lowercase();
        match (name.as_slice(), arguments.len()) {
            (b"echo", 2) => Reply::Bulk(arguments[1].to_vec()),
            (b"ping", 1) => Reply::Status(b"PONG".to_vec()),
            (b"set", 3) => {
                self.strings.insert(arguments[1].to_vec(), arguments[2].to_vec());
                Reply::Status(b"OK".to_vec())
            }
            (b"get", 2) => self.strings.get(arguments[1]).cloned().map_or(Reply::Null, Reply::Bulk),
            (b"mget", 2..) => Reply::Array(
                arguments[1..]
                    .iter()
                    .map(|key| self.strings.get(*key).cloned().map_or(Reply::Null, Reply::Bulk))
                    .collect(),
            ),
            (b"incrby", 3) => self.increment(arguments[1], arguments[2]),
            (b"del", 2) => Reply::Integer(i64::from(self.strings.remove(arguments[1]).is_some())),
            (b"echo" | b"ping" | b"set" | b"get" | b"mget" | b"incrby" | b"del", _) => {
                Reply::Error(b"ERR Wrong number of args calling command from script".to_vec())
            }
            _ => Reply::Error(b"ERR Unknown command called from script".to_vec()),
        }
    }

    fn increment(&mut self, key: &[u8], by: &[u8]) -> Reply {
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<i64>().ok();
        let present = self.strings.get(key).map_or(Some(0), |text| number(text));
        match present.zip(number(by)).and_then(|(a, b)| a.checked_add(b)) {
            Some(sum) => {
                self.strings.insert(key.to_vec(), sum.to_string().into_bytes());
                Reply::Integer(sum)
            }
            None => Reply::Error(b"ERR value is not an integer or out of range".to_vec()),
        }
    }
}

/// An interpreter with the limit of most tests.
pub fn interpreter() -> Interpreter {
    Interpreter::for_scripts(&identity(), 64 << 20).expect("the libraries fit")
}

/// Runs a source to its end.
pub fn run(
    interpreter: &mut Interpreter,
    host: &mut Store,
    source: &[u8],
    keys: &[&[u8]],
    arguments: &[&[u8]],
) -> Result<Reply, ScriptError> {
    let script = match interpreter.compile(source) {
        Ok(script) => script,
        Err(text) => {
            let begin = b"ERR Error compiling script (new function): ";
            return Err(ScriptError {
                message: [begin.as_slice(), &text].concat(),
                place: None,
                is_counted: false,
                is_killed: false,
            });
        }
    };
    let mut progress = interpreter.start(script, keys, arguments, Protocol::Resp2, host);
    loop {
        match progress {
            Progress::Done(reply) => {
                interpreter.forget(script);
                return Ok(reply);
            }
            Progress::Failed(error) => {
                interpreter.forget(script);
                return Err(error);
            }
            Progress::Suspended(run) => progress = interpreter.resume(run, host),
        }
    }
}

/// Result of a source in a fresh interpreter, as one line.
pub fn answer(source: &str) -> String {
    shown(&run(&mut interpreter(), &mut Store::default(), source.as_bytes(), &[], &[]))
}

/// A result as Valkey sends it: the place of an error behind its text.
pub fn shown(result: &Result<Reply, ScriptError>) -> String {
    match result {
        Ok(reply) => show(reply),
        Err(error) => {
            let text = String::from_utf8_lossy(&error.message).into_owned();
            let text = text.replace(['\r', '\n'], " ");
            match &error.place {
                Some((chunk, line)) => {
                    let chunk = String::from_utf8_lossy(chunk);
                    format!("-{text} script: on @{chunk}:{line}.")
                }
                None => format!("-{text}"),
            }
        }
    }
}

fn show(reply: &Reply) -> String {
    match reply {
        Reply::Null => "nil".to_owned(),
        Reply::Status(text) => format!("+{}", text.escape_ascii()),
        Reply::Error(text) | Reply::OwnError(text) => format!("-{}", String::from_utf8_lossy(text)),
        Reply::Integer(number) => format!(":{number}"),
        Reply::Bulk(text) => format!("${}", text.escape_ascii()),
        Reply::Array(items) => {
            let items: Vec<_> = items.iter().map(show).collect();
            format!("[{}]", items.join(" "))
        }
        Reply::Map(entries) => {
            let items: Vec<_> =
                entries.iter().flat_map(|(key, value)| [show(key), show(value)]).collect();
            format!("[{}]", items.join(" "))
        }
        Reply::Set(items) => {
            let items: Vec<_> = items.iter().map(show).collect();
            format!("[{}]", items.join(" "))
        }
        Reply::Bool(flag) => format!(":{}", u8::from(*flag)),
        Reply::Double(number) => format!("${number}"),
        Reply::BigNumber(text) | Reply::Verbatim { text, .. } => {
            format!("${}", text.escape_ascii())
        }
    }
}

/// A connection, and the Valkey that it is to.
pub struct Peer {
    connection: Connection,
    _valkey: Valkey,
}

impl Peer {
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// One with more options.
    pub fn start_with(options: &[&str]) -> Option<Self> {
        let options = [&["--save", "", "--lua-time-limit", "0"], options].concat();
        let valkey = Valkey::start(&options)?;
        Some(Self { connection: valkey.connect(), _valkey: valkey })
    }

    pub fn flush(&mut self) {
        assert_eq!(self.connection.ask(&["FLUSHALL"]), Value::SimpleString(b"OK".to_vec()));
    }

    /// Answer to the source of a script that is loaded: its error, or nothing.
    pub fn compile_error(&mut self, source: &[u8]) -> String {
        match self.connection.ask(&[b"SCRIPT", b"LOAD".as_slice(), source]) {
            Value::Error(text) => String::from_utf8_lossy(&text).into_owned(),
            _ => String::new(),
        }
    }

    /// Result of a source, in the form of `shown`.
    pub fn eval(&mut self, source: &[u8], keys: &[&[u8]], arguments: &[&[u8]]) -> String {
        let count = keys.len().to_string();
        let words = [&[b"EVAL", source, count.as_bytes()], keys, arguments].concat();
        show_value(&self.connection.ask(&words))
    }
}

fn show_value(value: &Value) -> String {
    match value {
        Value::Null => "nil".to_owned(),
        Value::Bulk(text) => format!("${}", text.escape_ascii()),
        Value::SimpleString(text) => format!("+{}", text.escape_ascii()),
        Value::Error(text) => format!("-{}", String::from_utf8_lossy(text)),
        Value::Integer(number) => format!(":{number}"),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(show_value).collect::<Vec<_>>().join(" "))
        }
        other => panic!("a reply of RESP3: {other:?}"),
    }
}
