//! Passwords in command lines, taken out before anything is recorded.
//!
//! Experiment files hold whole command lines: of servers, of loads, of programs. Journal and
//! reports show them with every value hidden that an option, a variable, an address or a command
//! gives as a password. What merely looks like one is hidden as well: a report that shows too
//! little can be mended, a password that was published cannot.

/// Text in the place of a password.
pub(crate) const HIDDEN: &str = "(secret)";

/// The command line without its passwords. Everything else stays as it is, so that two texts that
/// differ in a password only become the same.
pub(crate) fn hide(text: &str) -> String {
    Line::new(text, false).hide()
}

/// The same for flags of `tidemill bench`, whose `-a` takes its value attached too.
pub(crate) fn hide_in_flags(text: &str) -> String {
    Line::new(text, true).hide()
}

/// The value of a variable without its passwords.
pub(crate) fn hide_in_variable(name: &str, value: &str) -> String {
    if is_secret_variable(name) { HIDDEN.into() } else { hide(value) }
}

fn is_secret_variable(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pass", "auth", "secret", "token"].iter().any(|part| name.contains(part))
}

/// Names of directives and arguments that a password follows, with and without dashes.
const BARE: [&str; 5] = ["requirepass", "masterauth", "primaryauth", "auth", "auth2"];

fn is_secret_option(word: &str) -> bool {
    let name = word.trim_start_matches('-').to_ascii_lowercase();
    if BARE.contains(&name.as_str()) {
        return true;
    }
    // clap takes any beginning of a name that is no other's.
    let begins_ours = word.starts_with("--") && name.len() > 1 && "authenticate".starts_with(&name);
    let says_so = ["pass", "secret", "token"].iter().any(|part| name.contains(part));
    begins_ours || (word.starts_with('-') && says_so)
}

/// A command line of which the beginning is already shown.
struct Line<'a> {
    rest: &'a str,
    shown: String,
    /// The quote that is open, so that a word within it ends where it closes.
    quote: Option<char>,
    /// Rules of an ACL user may follow.
    seen_user: bool,
    own_flags: bool,
}

impl<'a> Line<'a> {
    fn new(rest: &'a str, own_flags: bool) -> Self {
        Self { rest, shown: String::new(), quote: None, seen_user: false, own_flags }
    }

    fn hide(mut self) -> String {
        while let Some(first) = self.rest.chars().next() {
            if first == '\\' && self.quote == Some('"') {
                self.show(1);
                self.show(self.rest.chars().next().map_or(0, char::len_utf8));
            } else if self.turns_quote(first) || first.is_whitespace() {
                self.show(first.len_utf8());
            } else {
                self.word(first);
            }
        }
        self.shown
    }

    fn show(&mut self, bytes: usize) {
        let (shown, rest) = self.rest.split_at(bytes);
        self.shown += shown;
        self.rest = rest;
    }

    /// Notes a letter that opens or closes a quote; returns true if it does.
    fn turns_quote(&mut self, letter: char) -> bool {
        match self.quote {
            Some(open) if open == letter => self.quote = None,
            None if is_quote(letter) => self.quote = Some(letter),
            _ => return false,
        }
        true
    }

    /// Shows one word, which begins with this letter, and leaves out the password in it or behind
    /// it.
    fn word(&mut self, first: char) {
        let ends = |letter: char| {
            letter.is_whitespace()
                || is_quote(letter)
                || (letter == '\\' && self.quote == Some('"'))
        };
        let begin = first.len_utf8();
        let bytes = self.rest[begin..].find(ends).map_or(self.rest.len(), |at| begin + at);
        let word = &self.rest[..bytes];
        let bare = word.trim_matches(is_quote);
        let lower = bare.to_ascii_lowercase();
        if let Some(scheme) = word.find("://").map(|at| at + 3)
            && self.rest[scheme..][..self.value_bytes(scheme)].contains('@')
        {
            return self.address(scheme);
        }
        if let Some((name, _)) = word.split_once('=')
            && (is_secret_option(name) || (!name.starts_with('-') && is_secret_variable(name)))
        {
            self.show(name.len() + 1);
            self.leave_out_value();
        } else if let Some(at) = self.attached(word) {
            self.show(at);
            if at == bytes {
                self.go_to_value();
            }
            self.leave_out_value();
        } else if self.seen_user && word.starts_with(['>', '#']) {
            self.show(1);
            self.leave_out_value();
        } else if is_secret_option(bare) {
            self.show(bytes);
            self.go_to_value();
            self.leave_out_value();
            if lower.starts_with("auth") {
                // A user may stand before the password.
                self.skip_blanks();
                self.leave_out_value();
            }
        } else {
            self.seen_user |= matches!(lower.as_str(), "--user" | "user" | "setuser");
            self.show(bytes);
        }
    }

    /// Offset of the password in a word of one-letter options that ends with `-a`, `-a=` or, among
    /// our own flags, `-asecret`.
    fn attached(&self, word: &str) -> Option<usize> {
        let letters = word.strip_prefix('-')?;
        let value = letters.trim_start_matches(['4', '6', 'R']).strip_prefix('a')?;
        let begin = word.len() - value.len();
        match value.strip_prefix('=') {
            Some(_) => Some(begin + 1),
            None => (value.is_empty() || self.own_flags).then_some(begin),
        }
    }

    /// Leaves the credentials out of the address whose scheme ends there, or all of it when quotes
    /// stand in it.
    fn address(&mut self, scheme: usize) {
        let address = &self.rest[scheme..][..self.value_bytes(scheme)];
        let place = address.rfind('@').filter(|_| !address.contains(is_quote));
        self.show(scheme);
        match place {
            Some(at) => {
                self.shown += HIDDEN;
                self.rest = &self.rest[at..];
            }
            None => self.leave_out_value(),
        }
    }

    /// Skips the blanks behind an option, and the end of a quote that holds the option alone.
    fn go_to_value(&mut self) {
        if let (Some(open), Some(next)) = (self.quote, self.rest.chars().next())
            && open == next
            && self.rest[1..].starts_with(char::is_whitespace)
        {
            self.quote = None;
            self.show(1);
        }
        self.skip_blanks();
    }

    fn skip_blanks(&mut self) {
        let blanks = self.rest.len() - self.rest.trim_start().len();
        self.show(blanks);
    }

    fn leave_out_value(&mut self) {
        let bytes = self.value_bytes(0);
        if bytes > 0 {
            self.shown += HIDDEN;
        }
        self.rest = &self.rest[bytes..];
    }

    /// Length of the value that begins there: up to a blank outside of its own quotes, within the
    /// quote that is open.
    fn value_bytes(&self, begin: usize) -> usize {
        let text = &self.rest[begin..];
        let text = self.quote.map_or(text, |open| &text[..quoted_bytes(text, open)]);
        let mut at = 0;
        while let Some(letter) = text[at..].chars().next().filter(|letter| !letter.is_whitespace())
        {
            at += letter.len_utf8();
            if is_quote(letter) {
                at += quoted_bytes(&text[at..], letter);
                // Its end, if it has one.
                at += usize::from(at < text.len());
            }
        }
        at
    }
}

fn is_quote(letter: char) -> bool {
    matches!(letter, '"' | '\'')
}

/// Bytes up to where the quote closes, or all.
fn quoted_bytes(text: &str, quote: char) -> usize {
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        if letter == quote {
            return at;
        }
        if letter == '\\' && quote == '"' {
            letters.next();
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_in_every_form_that_a_command_line_has() {
        let lines = [
            "-c 1 -a s3cr3t -t 1",
            "-c 1 -as3cr3t -t 1",
            "-c 1 -a=s3cr3t -t 1",
            "-4Ra s3cr3t -t 1",
            "--authenticate=user:s3cr3t",
            "--authenticate user:s3cr3t",
            "--auth s3cr3t -t 1",
            "-a 'a s3cr3t of words' -t 1",
            "-a \"a \\\" s3cr3t\" -t 1",
            "-a glued\"to s3cr3t\" -t 1",
            "\"-a\" s3cr3t",
            "-u redis://user:s3cr3t@host:1/2",
            "--uri=rediss://:s3cr3t@host",
            "-u 'redis://u:s3@cr3t@host'",
            "-u \"redis://u:it's3cr3t@host\" -t 1",
            "--uri=\"redis://u:s3cr3t@h\" -a \"s3 cr3t\"",
            "--command \"GET \\\"x\" -a \"s3 cr3t\"",
            "redis-server --port {port} --requirepass s3cr3t --save ''",
            "redis-server --requirepass \"s3cr3t\"",
            "redis-server --user 'default on >s3cr3t ~* +@all'",
            "redis-server --user default on >s3cr3t ~*",
            "redis-server --masterauth s3cr3t",
            "redis-server --tls-key-file-pass s3cr3t",
            "REDISCLI_AUTH=s3cr3t redis-cli ping",
            "PASSWORD='s3cr3t' ./measure",
            "sh -c \"redis-cli -a 's3cr3t' ping\"",
            "sh -c 'redis-cli --pass s3cr3t ping'",
            "--command=\"AUTH s3cr3t\" -t 1",
            "--command='auth user s3cr3t' -t 1",
            "--command 'HELLO 3 AUTH user s3cr3t SETNAME x'",
            "--command 'CONFIG SET requirepass s3cr3t'",
            "--command 'MIGRATE h 1 k 0 9 AUTH2 user s3cr3t'",
            "-a s3cr3t",
            "-a s3cr3t\n",
        ];
        for line in lines {
            let hidden = hide_in_flags(line);
            assert!(!hidden.contains("s3") && !hidden.contains("cr3t"), "{line}: {hidden}");
            assert!(hidden.contains(HIDDEN), "{line}: {hidden}");
            assert_eq!(hide_in_flags(&hidden), hidden, "{line}");
        }
        assert_eq!(hide("x -a s3cr3t -t  1"), "x -a (secret) -t  1");
        assert_eq!(
            hide("--command=\"AUTH u s3cr3t\" -t 1"),
            "--command=\"AUTH (secret) (secret)\" -t 1"
        );
        assert_eq!(hide("-u redis://u:p@h:1/2 -t 1"), "-u redis://(secret)@h:1/2 -t 1");
        assert_eq!(hide_in_variable("REDISCLI_AUTH", "s3cr3t"), HIDDEN);
        assert_eq!(hide_in_variable("FLAGS", "-a s3cr3t"), "-a (secret)");
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for line in [
            "",
            "-t 1 -c 50 --test-time 8 --warmup 5 --preload --key-maximum 100000 \
             --distinct-client-seed",
            "redis-server --port {port} --bind 127.0.0.1 --save '' --appendonly no \
             --tls-auth-clients no",
            "test $(nproc) -gt 1 || { echo 'there is one CPU' >&2; false; } && test -w /sys/x",
            "echo 2 > /sys/class/net/lo/queues/rx-0/rps_cpus",
            "--command 'SET __key__ __data__' --command=\"HGET \\\"a b\\\" c\" -S {socket}",
            "taskset -c 0,1 ./server -address :1 --cpus=1 mail@host http://host/",
            "an open 'quote and \"more",
            "ümläut -R -d 3 € 'ö'",
        ] {
            assert_eq!(hide(line), line);
        }
        assert_eq!(hide_in_variable("MALLOC_CONF", "thp:always"), "thp:always");
    }

    #[test]
    fn any_text_is_read_without_a_panic() {
        let mut random = crate::load::keys::Random::new(3);
        let pieces =
            ["-a", "\"", "'", " ", "\\", "auth", "=", "://", "@", "ö", ">", "--user", "x", "-4R"];
        for _ in 0..20_000 {
            let count = crate::load::keys::below(&mut random, 12);
            let text: String = (0..count)
                .map(|_| {
                    pieces[crate::load::keys::below(&mut random, pieces.len() as u64) as usize]
                })
                .collect();
            let _ = (hide(&text), hide_in_flags(&text));
        }
    }
}
