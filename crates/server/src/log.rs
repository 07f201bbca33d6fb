//! The log: one line per event, in the form that Redis's tools read.
//!
//! `12345:M 21 Nov 2026 11:58:09.694 * text`: process, role, local time, level, text; or the same
//! in `logfmt` or JSON. The levels of the directive `loglevel` are those of the crate `log` under
//! other names: `warning` is error and warn, `notice` info, `verbose` debug, `debug` trace. A file
//! is opened for each line, as in Redis, so that its rotation needs no signal. Writing blocks the
//! thread that logs; a line that cannot be written is lost, since there is nowhere to report it.

use std::borrow::Cow;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{Timestamp, Zoned};
use log::{Level, LevelFilter, Log, Metadata, Record};
use tidemill_engine::config::ServerConfig;

use crate::process::syslog::{Severity, SyslogSink};

static LOG: ServerLog = ServerLog { file: Mutex::new(None), syslog: OnceLock::new() };

/// Destinations of lines: the file, or standard output while there is none, and syslog.
struct ServerLog {
    file: Mutex<Option<PathBuf>>,
    syslog: OnceLock<SyslogSink>,
}

/// Form of lines: numbers of [`FORMATS`] and [`TIME_FORMATS`]. Relaxed: a line more in the old
/// form harms nobody.
static FORMAT: AtomicU8 = AtomicU8::new(0);
static TIME_FORMAT: AtomicU8 = AtomicU8::new(0);

/// Values of `log-format` and `log-timestamp-format`.
const FORMATS: [&str; 3] = ["legacy", "logfmt", "json"];
const TIME_FORMATS: [&str; 3] = ["legacy", "iso8601", "milliseconds"];

impl Log for ServerLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let now = Zoned::now();
        // Relaxed: a number by itself, which a crash reads.
        OFFSET_S.store(now.offset().seconds(), Ordering::Relaxed);
        let text = record.args().to_string();
        // Relaxed, both: see where they are declared.
        let time = time(&now, usize::from(TIME_FORMAT.load(Ordering::Relaxed)));
        let format = usize::from(FORMAT.load(Ordering::Relaxed));
        let line = line(record.level(), &time, &text, format);
        if let Some(syslog) = self.syslog.get() {
            syslog.send(severity(record.level()), &now.strftime("%b %e %T").to_string(), &text);
        }
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // Lost when it cannot be written, here and below.
        let _ = match &*file {
            Some(path) => OpenOptions::new()
                .append(true)
                .create(true)
                .open(path)
                .and_then(|mut file| file.write_all(line.as_bytes())),
            None => std::io::stdout().write_all(line.as_bytes()),
        };
    }

    fn flush(&self) {}
}

/// Seconds by which local time was ahead of UTC at the last line.
static OFFSET_S: AtomicI32 = AtomicI32::new(0);

/// A local time as lines begin with it.
#[derive(Debug)]
pub(crate) struct Stamp(DateTime);

impl Stamp {
    /// Now, by the offset that local time had at the last line: neither this nor printing it
    /// allocates or reads a file.
    pub(crate) fn now() -> Stamp {
        // Relaxed: see where it is stored.
        let offset = Offset::from_seconds(OFFSET_S.load(Ordering::Relaxed)).unwrap_or(Offset::UTC);
        Stamp(offset.to_datetime(Timestamp::now()))
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let (date, time) = (self.0.date(), self.0.time());
        let month = MONTHS[(date.month() - 1) as usize];
        write!(f, "{:02} {month} {:04} ", date.day(), date.year())?;
        write!(f, "{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())?;
        write!(f, ".{:03}", time.millisecond())
    }
}

/// A time in one of [`TIME_FORMATS`].
fn time(now: &Zoned, format: usize) -> String {
    match TIME_FORMATS[format] {
        "iso8601" => now.strftime("%Y-%m-%dT%H:%M:%S.%3f%:z").to_string(),
        "milliseconds" => now.timestamp().as_millisecond().to_string(),
        _ => Stamp(now.datetime()).to_string(),
    }
}

/// A line in one of [`FORMATS`].
fn line(level: Level, time: &str, text: &str, format: usize) -> String {
    let (mark, name) = match level {
        Level::Error | Level::Warn => ('#', "warning"),
        Level::Info => ('*', "notice"),
        Level::Debug => ('-', "info"),
        Level::Trace => ('.', "debug"),
    };
    let process = std::process::id();
    match FORMATS[format] {
        "logfmt" => {
            let text = text.replace(['\n', '\r'], " ").replace('"', "'");
            format!(
                "pid={process} role=primary timestamp=\"{time}\" level={name} message=\"{text}\"\n"
            )
        }
        "json" => {
            let text = json(text);
            format!(
                "{{\"pid\":{process},\"role\":\"primary\",\"timestamp\":\"{time}\",\
                 \"level\":\"{name}\",\"message\":{text}}}\n"
            )
        }
        _ => format!("{process}:M {time} {mark} {text}\n"),
    }
}

/// A text as a string of JSON.
fn json(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\0'..='\x1f' => quoted.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// A text that a client chose as lines may hold it: nothing of it ends a line or begins another.
pub(crate) fn printable(text: &[u8]) -> Cow<'_, str> {
    // Relaxed: see where it is declared.
    match FORMATS[usize::from(FORMAT.load(Ordering::Relaxed))] {
        // It has escapes of its own.
        "json" => String::from_utf8_lossy(text),
        _ => text.escape_ascii().to_string().into(),
    }
}

fn severity(level: Level) -> Severity {
    match level {
        Level::Error | Level::Warn => Severity::Warning,
        Level::Info => Severity::Notice,
        Level::Debug => Severity::Info,
        Level::Trace => Severity::Debug,
    }
}

/// Gives lines the form of a configuration, and those levels that it asks for.
pub(crate) fn configure(config: &ServerConfig) {
    let number = |formats: &[&str], wanted: &str| {
        formats.iter().position(|format| *format == wanted).unwrap_or(0) as u8
    };
    // Relaxed, both: see where they are declared.
    FORMAT.store(number(&FORMATS, &config.log_format), Ordering::Relaxed);
    TIME_FORMAT.store(number(&TIME_FORMATS, &config.log_time_format), Ordering::Relaxed);
    log::set_max_level(level(&config.log_level));
}

/// The level that a value of `loglevel` asks for.
fn level(name: &str) -> LevelFilter {
    match name {
        "debug" => LevelFilter::Trace,
        "verbose" => LevelFilter::Debug,
        "warning" => LevelFilter::Warn,
        "nothing" => LevelFilter::Off,
        _ => LevelFilter::Info,
    }
}

/// Begins to log as a configuration says.
///
/// # Errors
///
/// Text for the operator when the file cannot be opened.
pub(crate) fn start(config: &ServerConfig) -> Result<(), String> {
    let file = config.log_file.as_deref();
    if let Some(path) = file {
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(|error| format!("Can't open the log file '{path}': {error}"))?;
    }
    // Absolute, so that it stays the same file whatever the working directory.
    let path = file.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.into()));
    *LOG.file.lock().unwrap_or_else(PoisonError::into_inner) = path;
    if config.syslog.is_enabled {
        // It is set once, at start.
        let _ = LOG.syslog.set(SyslogSink::new(&config.syslog));
    }
    configure(config);
    // Installed already is as good: the destination was set above.
    let _ = log::set_logger(&LOG);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_valkeys_form() {
        let now: Zoned = "2026-11-01T08:05:09.0425-03:30[-03:30]".parse().expect("a time");
        let process = std::process::id();
        let of = |level, text, format| line(level, &time(&now, format), text, format);
        assert_eq!(
            of(Level::Warn, "text", 0),
            format!("{process}:M 01 Nov 2026 08:05:09.042 # text\n")
        );
        let marks = [Level::Error, Level::Info, Level::Debug, Level::Trace]
            .map(|level| of(level, "", 0).chars().rev().nth(2));
        assert_eq!(marks, ['#', '*', '-', '.'].map(Some));
        assert_eq!(
            of(Level::Info, "a \"quoted\"\r\nword", 1),
            format!(
                "pid={process} role=primary timestamp=\"2026-11-01T08:05:09.042-03:30\" \
                 level=notice message=\"a 'quoted'  word\"\n"
            )
        );
        assert_eq!(
            of(Level::Debug, "\"\\\n\r\t\u{8}\u{c}\u{1}\u{1f}ü", 2),
            format!(
                "{{\"pid\":{process},\"role\":\"primary\",\"timestamp\":\"1793532909042\",\
                 \"level\":\"info\",\"message\":\"\\\"\\\\\\n\\r\\t\\b\\f\\u0001\\u001fü\"}}\n"
            )
        );
    }

    #[test]
    fn levels_are_those_of_the_directive() {
        let levels = ["debug", "verbose", "notice", "warning", "nothing"].map(level);
        assert!(levels.is_sorted_by(|more, less| more > less), "{levels:?}");
    }
}
