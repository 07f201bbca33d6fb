//! Every command of the table, sent by users who may and who may not: by itself, queued, and queued
//! before the rules changed. Made from the declarations: a new command is in it.

use tidemill_engine::command::{Command, Flags, KeyFlags, KeySpec, Scope};
use tidemill_resp::request::OwnedArguments;

use super::harness::Server;

/// Commands that a client without any permission may send.
fn is_free(command: &Command) -> bool {
    command.flags.contains(Flags::NO_AUTH)
}

fn commands() -> impl Iterator<Item = &'static Command> {
    let all = tidemill_engine::execute::commands().iter().map(|(_, command)| command);
    all.filter(|command| command.scope != Scope::Container)
}

/// The command with as few arguments as it takes, each of them `word`.
fn call_of(command: &Command, word: &str) -> Vec<String> {
    let mut words: Vec<String> = command.name.split('|').map(str::to_owned).collect();
    while !command.takes(words.len()) {
        words.push(word.to_owned());
    }
    words
}

/// Keys and channels among the words.
fn touched(command: &Command, words: &[String]) -> (usize, usize) {
    let owned = OwnedArguments::new(words.iter().map(String::as_bytes));
    let keys = command.key_accesses(&owned.view()).map_or(0, |keys| keys.len());
    let channels = command.channels.map_or(0, |channels| channels.positions(&owned.view()).len());
    (keys, channels)
}

/// A call that touches a key or a channel, if the command can.
fn fitting_call(command: &Command) -> (Vec<String>, usize, usize) {
    if let "xread" | "xreadgroup" = command.name {
        // Keys are found behind a word.
        let words = match command.name {
            "xread" => "xread STREAMS 1 1",
            _ => "xreadgroup GROUP 1 1 STREAMS 1 1",
        };
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let (keys, channels) = touched(command, &words);
        return (words, keys, channels);
    }
    // `1` is a key, and a number of keys.
    let mut words = call_of(command, "1");
    let least = words.len();
    while touched(command, &words) == (0, 0) && words.len() < least + 2 && command.arity < 0 {
        words.push("1".to_owned());
    }
    let (keys, channels) = touched(command, &words);
    (words, keys, channels)
}

struct Case {
    server: Server,
    admin: u64,
    client: u64,
    words: Vec<String>,
}

impl Case {
    fn new(words: &[String], rules: &[&str]) -> Case {
        let mut server = Server::new(1, 1_000_000);
        let (admin, client) = (server.connect(0), server.connect(0));
        let mut case = Case { server, admin, client, words: words.to_vec() };
        case.set(&[&["on", ">p"], rules].concat());
        assert_eq!(case.server.call(client, &["AUTH", "u", "p"]), "+OK\r\n");
        case
    }

    fn set(&mut self, rules: &[&str]) {
        let words = [&["ACL", "SETUSER", "u"], rules].concat();
        assert_eq!(self.server.call(self.admin, &words), "+OK\r\n", "{rules:?}");
    }

    fn send(&mut self) -> String {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        self.server.turn_once(
            self.client,
            &tidemill_resp::request::encode(
                &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>(),
            ),
        );
        self.server.take_output(self.client)
    }

    fn ask(&mut self, word: &str) -> String {
        self.server.call(self.client, &[word])
    }
}

/// Sends the command by itself, in a transaction, and in one whose rules change before it runs;
/// `before` allows it and `after` denies it with `text`, and in `EXEC` for `reason`.
fn is_denied(words: &[String], (before, after): (&[&str], &[&str]), text: &str, reason: &str) {
    let rules = [before, after].concat();
    let denied = match &*words[0] {
        "exec" => format!("-EXECABORT Transaction discarded because of: NOPERM {text}"),
        _ => format!("-NOPERM {text}"),
    };
    let reply = Case::new(words, &rules).send();
    assert!(reply.starts_with(&denied), "{words:?} by {rules:?}: {reply}");
    let mut queueing = Case::new(words, &[&rules[..], &["+multi", "+exec"]].concat());
    if matches!(&*words[0], "multi" | "exec") {
        return;
    }
    queueing.ask("MULTI");
    let reply = queueing.send();
    let is_never_queued = reply.contains("not allowed inside a transaction");
    assert!(reply.starts_with(&denied) || is_never_queued, "{words:?} in MULTI: {reply}");
    assert!(queueing.ask("EXEC").starts_with("-EXECABORT"), "{words:?}");
    if is_never_queued || words[0] == "discard" {
        return;
    }
    let mut queued = Case::new(words, &[before, &["+multi", "+exec"]].concat());
    queued.ask("MULTI");
    let reply = queued.send();
    assert_eq!(reply, "+QUEUED\r\n", "{words:?} by {before:?}");
    queued.set(after);
    let reply = queued.ask("EXEC");
    let changed = "*1\r\n-NOPERM ACLs rules changed between the moment";
    assert!(reply.starts_with(changed) && reply.contains(reason), "{words:?} in EXEC: {reply}");
}

#[test]
fn each_command_is_denied_by_itself() {
    for command in commands().filter(|command| !is_free(command)) {
        let words = call_of(command, "1");
        let minus = format!("-{}", command.name);
        let all: &[&str] = &["+@all", "allkeys", "allchannels"];
        let text = format!("User u has no permissions to run the '{}' command", command.name);
        is_denied(&words, (all, &[&minus]), &text, "no permission to execute the command");
        // Nothing but the command allows it.
        let plus = format!("+{}", command.name);
        let reply = Case::new(&words, &["allkeys", "allchannels", &plus]).send();
        assert!(!reply.starts_with("-NOPERM"), "{words:?}: {reply}");
    }
}

#[test]
fn each_command_is_denied_by_its_keys() {
    let mut count = 0;
    for command in commands() {
        let (words, keys, _) = fitting_call(command);
        if keys == 0 {
            let is_key = |spec: &KeySpec| !spec.flags.contains(KeyFlags::NOT_KEY);
            let has_keys = command.keys.iter().any(is_key);
            assert!(!has_keys, "{words:?} has no key");
            continue;
        }
        count += 1;
        let all: &[&str] = &["+@all", "allchannels", "~1"];
        let after: &[&str] = &["resetkeys", "~other", "%R~1?", "%W~?1"];
        let text = "No permissions to access a key";
        is_denied(&words, (all, after), text, "no permission to touch the specified keys");
        let reply = Case::new(&words, all).send();
        assert!(!reply.starts_with("-NOPERM"), "{words:?}: {reply}");
        // One selector has to allow all of it.
        let selectors = ["+@all", "-@write", "-@read", "allchannels", "(~1 -@all)"];
        let reply = Case::new(&words, &selectors).send();
        assert!(reply.starts_with("-NOPERM"), "{words:?}: {reply}");
    }
    assert!(count > 90, "{count} commands with keys");
}

#[test]
fn each_command_is_denied_by_its_channels() {
    for command in commands() {
        let (words, _, channels) = fitting_call(command);
        if channels == 0 {
            assert!(command.channels.is_none(), "{words:?} has no channel");
            continue;
        }
        let all: &[&str] = &["+@all", "allkeys", "&1"];
        let text = "No permissions to access a channel";
        let reason = "no permission to access one of the channels";
        is_denied(&words, (all, &["resetchannels", "&2"]), text, reason);
        let reply = Case::new(&words, all).send();
        assert!(!reply.starts_with("-NOPERM"), "{words:?}: {reply}");
    }
}

#[test]
fn each_command_on_data_is_denied_by_its_database() {
    for command in commands().filter(|command| command.is_about_data()) {
        let (words, ..) = fitting_call(command);
        let all: &[&str] = &["+@all", "allkeys", "allchannels"];
        // The arguments of SWAPDB number a database; the selected one is not touched.
        let after: &[&str] = if command.name == "swapdb" { &["db=0"] } else { &["db=7"] };
        is_denied(&words, (all, after), "No permissions to access database", "no permission");
    }
}
