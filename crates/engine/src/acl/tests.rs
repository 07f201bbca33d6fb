use super::patterns::{Access, KeyPattern};
use super::*;
use crate::command::KeyFlags;
use crate::glob;

fn users() -> Users {
    Users::new(crate::execute::commands())
}

fn set(users: &Users, name: &str, rules: &str) -> Result<(), RuleError> {
    let words: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
    let rules = Rules::of(&words).expect("no selector is left open");
    let set = users.set(name.as_bytes(), ChannelsOfNewUsers::None, &rules);
    set.map(drop).map_err(|(_, error)| error)
}

#[test]
fn a_pattern_split_into_prefix_and_rest_matches_as_the_whole() {
    let texts = ["", "a", "ab", "abc", "b", "*", "a*", "ab*c", "a[b]", "\\a", "ba"];
    let patterns =
        ["", "*", "**", "a", "a*", "a**", "ab*", "*b", "a*c", "a?c", "?", "[a-b]*", "a\\*", "\\"];
    for pattern in patterns.map(str::as_bytes) {
        let split = KeyPattern::new(pattern, Access::all());
        for text in texts.map(str::as_bytes) {
            let expected = glob::matches(pattern, text, false);
            assert_eq!(split.allows(Access::empty(), text), expected, "{pattern:?} {text:?}");
        }
    }
}

#[test]
fn keys_that_are_only_asked_about_need_any_permission() {
    let read = KeyPattern::new(b"k", Access::READ);
    for (flags, allowed) in [
        (KeyFlags::RO, true),
        (KeyFlags::RO | KeyFlags::ACCESS, true),
        (KeyFlags::RW | KeyFlags::ACCESS | KeyFlags::UPDATE, false),
        (KeyFlags::OW | KeyFlags::INSERT, false),
        (KeyFlags::RM | KeyFlags::DELETE, false),
    ] {
        assert_eq!(read.allows(Access::needed_for(flags), b"k"), allowed, "{flags:?}");
    }
}

#[test]
fn rules_are_applied_together_or_not_at_all() {
    let users = users();
    set(&users, "u", "on +get ~a").expect("rules");
    let before = users.version();
    assert_eq!(set(&users, "u", "off -get nonsense"), Err(RuleError::Syntax));
    assert_eq!(set(&users, "new", "on nonsense"), Err(RuleError::Syntax));
    let user = users.find(b"u").expect("it is there").user();
    assert_eq!(user.describe(), b"u on ~a resetchannels -@all +get");
    assert!(users.find(b"new").is_none());
    assert_eq!(users.version(), before, "nothing changed");
}

#[test]
fn a_deleted_account_stays_with_those_who_hold_it_and_lets_nobody_in() {
    let users = users();
    set(&users, "u", "on >p").expect("rules");
    let held = users.authenticate(b"u", b"p").expect("the password");
    assert!(users.authenticate(b"u", b"q").is_none() && users.authenticate(b"v", b"p").is_none());
    let deleted = users.delete(b"u").expect("it is there");
    assert!(held.is_deleted() && std::sync::Arc::ptr_eq(&held, &deleted));
    set(&users, "u", "on nopass").expect("rules");
    assert!(!std::sync::Arc::ptr_eq(&held, &users.authenticate(b"u", b"p").expect("anew")));
}

#[test]
fn equal_denials_of_a_minute_are_one_entry() {
    let log = Log::default();
    let add = |object: &str, denied, now_ms| {
        let what = (denied, Context::TopLevel);
        log.add(3, LogEntry::new(what, object.as_bytes(), b"u", String::new(), now_ms));
    };
    let key = Denied::Call(Reason::Key);
    add("a", key, 1_000);
    add("b", key, 2_000);
    add("a", key, 61_000);
    let entries = log.latest(10);
    let shown: Vec<_> = entries.iter().map(|entry| (&*entry.object, entry.count)).collect();
    assert_eq!(shown, [(&b"a"[..], 2), (&b"b"[..], 1)], "the latest first");
    assert_eq!((entries[0].id, entries[0].created_ms, entries[0].updated_ms), (0, 1_000, 61_000));
    // A minute counts from the last time; another reason is another entry.
    add("a", key, 121_000);
    add("a", Denied::Authentication, 121_000);
    add("a", key, 181_001);
    let counts: Vec<u64> = log.latest(10).iter().map(|entry| entry.count).collect();
    assert_eq!(counts, [1, 1, 3], "the oldest of four went");
    log.reset();
    assert!(log.latest(10).is_empty());
}

#[test]
fn a_hash_is_compared_whole() {
    let users = users();
    set(&users, "u", "on >p").expect("rules");
    let user = users.find(b"u").expect("it is there").user();
    let digits = user.password_digits().next().expect("one password");
    assert_eq!(digits, "148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940");
    for (index, digit) in digits.char_indices() {
        let mut other = digits.clone();
        other.replace_range(index..=index, if digit == '0' { "1" } else { "0" });
        set(&users, "u", &format!("resetpass #{other}")).expect("a hash");
        assert!(users.authenticate(b"u", b"p").is_none(), "digit {index}");
    }
}

#[test]
fn passwords_are_made_anew_each_time_and_as_long_as_asked() {
    for bits in [1, 4, 5, 8, 9, 256, 4096] {
        let (one, other) = (generate(bits).expect("random"), generate(bits).expect("random"));
        assert_eq!(one.len(), bits.div_ceil(4));
        assert!(one.bytes().all(|byte| b"0123456789abcdef".contains(&byte)));
        assert!(bits < 256 || one != other);
    }
}

/// A line of a configuration's file, and the file of users with these contents.
fn begun(lines: &str, listed: Option<&str>) -> Result<Users, String> {
    struct Lines(String);

    impl crate::config::Files for Lines {
        fn read(&self, _: &str) -> std::io::Result<Vec<u8>> {
            Ok(self.0.clone().into_bytes())
        }

        fn matching(&self, _: &str) -> Vec<String> {
            Vec::new()
        }

        fn enter(&self, _: &str) -> std::io::Result<()> {
            Ok(())
        }

        fn standard_input(&self) -> std::io::Result<Vec<u8>> {
            Err(std::io::ErrorKind::NotFound.into())
        }
    }

    let line = crate::config::CommandLine::parse(["a.conf".to_owned()]);
    let configuration =
        crate::config::load(&line, &Lines(lines.to_owned())).map_err(|error| error.to_string())?;
    let users = users();
    let read = |_: &str| match listed {
        Some(listed) => Ok(listed.as_bytes().to_vec()),
        None => Err(std::io::ErrorKind::NotFound.into()),
    };
    begin(&users, &configuration, read).map_err(|error| error.to_string())?;
    Ok(users)
}

fn described(users: &Users) -> Vec<String> {
    users.all().iter().map(|user| String::from_utf8_lossy(&user.describe()).into_owned()).collect()
}

#[test]
fn users_are_made_of_lines_of_the_configuration_or_of_a_file() {
    let of_lines = begun("user a on ~x (+get ~\"y\" )\nport 0\nUSER default on ~* +@all\n", None);
    assert_eq!(
        described(&of_lines.expect("right lines")),
        [
            "a on ~x resetchannels -@all (~y resetchannels -@all +get)",
            "default on ~* resetchannels +@all"
        ]
    );
    let of_file = begun("aclfile u.acl\n", Some("user b on +get\r\n\n  user c off (+set ~k)  \n"));
    assert_eq!(
        described(&of_file.expect("a right file")),
        [
            "b on resetchannels -@all +get",
            "c off resetchannels -@all (~k resetchannels -@all +set)",
            "default on nopass ~* &* +@all",
        ]
    );
}

#[test]
fn wrong_declarations_refuse_the_start_with_file_line_and_reason() {
    let declared = "Error in user declaration";
    for (lines, listed, wanted) in [
        ("user\n", None, vec!["a.conf:1: directive 'user': Bad directive".to_owned()]),
        (
            "user a on\nuser a off\nuser b +nope\nuser c bogus\nuser \"d e\"\nuser f (+get\n",
            None,
            vec![
                format!("a.conf:2: directive 'user': {declared} 'a': Duplicate user found."),
                format!("a.conf:3: directive 'user': {declared} 'b': '+nope': Unknown command"),
                format!("a.conf:4: directive 'user': {declared} 'c': Syntax error"),
                format!("a.conf:5: directive 'user': {declared} 'd e': Spaces not allowed"),
                format!("a.conf:6: directive 'user': {declared} 'f': Unmatched parenthesis"),
            ],
        ),
        (
            "aclfile u.acl\nuser a on\n",
            Some("user b on\n"),
            vec!["a.conf:2: directive 'user': users are declared in aclfile 'u.acl'".to_owned()],
        ),
        ("aclfile u.acl\n", None, vec!["opening file 'u.acl': entity not found".to_owned()]),
        (
            "aclfile u.acl\n",
            Some(
                "# no comments\nuser b on\nuser b off\nuser c >p +nope bogus <none +no2\n\
                 user d (~x\n",
            ),
            vec![
                "u.acl:1 should start with user keyword followed by the username.".to_owned(),
                "WARNING: Duplicate user 'b' found on line 3.".to_owned(),
                "u.acl:4: Error in applying operation '+nope': Unknown command".to_owned(),
                "u.acl:4: Syntax error.".to_owned(),
                "u.acl:4: Error in applying operation '+no2': Unknown command".to_owned(),
                "u.acl:5: Unmatched parenthesis in selector definition.".to_owned(),
            ],
        ),
    ] {
        let error = begun(lines, listed).map(|users| described(&users)).expect_err(lines);
        for wanted in wanted {
            assert!(error.contains(&wanted), "{wanted}\nis not in\n{error}");
        }
        assert!(!error.contains("password you are trying"), "the first of a line counts: {error}");
    }
}

#[test]
fn channels_are_judged_as_declared_and_patterns_literally() {
    use tidemill_resp::request::OwnedArguments;

    use crate::command::{Categories, Channels, Command, CommandTable, Group};

    const FAMILY: Command = Command::session(Group::Server, Categories::empty());
    const PUBLISH: Command = FAMILY.command("publish", 3, "2.0.0", "").channels(Channels::first());
    const SUBSCRIBE: Command =
        FAMILY.command("subscribe", -2, "2.0.0", "").channels(Channels::all());
    const PSUBSCRIBE: Command =
        FAMILY.command("psubscribe", -2, "2.0.0", "").channels(Channels::patterns());
    let table: &'static CommandTable =
        Box::leak(Box::new(CommandTable::new(&[&PUBLISH, &SUBSCRIBE, &PSUBSCRIBE])));
    let users = Users::new(table);
    set(&users, "u", "+@all &news.* &a").expect("rules");
    let user = users.find(b"u").expect("it is there").user();
    for (call, denied) in [
        ("publish news.x payload", None),
        ("publish payload news.x", Some(1)),
        ("subscribe a news.1", None),
        ("subscribe a b news.1", Some(2)),
        ("psubscribe news.* a", None),
        ("psubscribe a news.1*", Some(2)),
    ] {
        let owned = OwnedArguments::new(call.split(' ').map(str::as_bytes));
        let args = owned.view();
        let id = table.find(args.get(0)).expect("a command of the table");
        let verdict = user.check(&Call::new((id, table.command(id)), &args, 0, 16));
        let wanted =
            denied.map_or(Ok(()), |argument| Err(Denial { reason: Reason::Channel, argument }));
        assert_eq!(verdict, wanted, "{call}");
    }
    set(&users, "u", "allchannels").expect("a rule");
    let args = OwnedArguments::new(["subscribe", "b"].map(str::as_bytes));
    let id = table.find(b"subscribe").expect("a command of the table");
    let user = users.find(b"u").expect("it is there").user();
    assert_eq!(user.check(&Call::new((id, &SUBSCRIBE), &args.view(), 0, 16)), Ok(()));
}

#[test]
fn users_of_all_keys_and_all_brief_reads_need_no_look_at_them() {
    use super::BriefReads;

    let users = users();
    for (rules, expected) in [
        ("+@all ~*", BriefReads::All),
        ("+@all allchannels ~* -@dangerous", BriefReads::All),
        ("+@read ~*", BriefReads::All),
        ("+@all ~* -get", BriefReads::Some),
        ("+@all ~* -get +get|a", BriefReads::Some),
        ("+get ~*", BriefReads::Some),
        ("+@all %R~*", BriefReads::Some),
        ("+@all ~k*", BriefReads::Some),
        ("-@all (+@all ~*)", BriefReads::Some),
        ("+@all ~* db=0", BriefReads::None),
    ] {
        set(&users, "u", &format!("reset {rules}")).expect("rules");
        let user = users.find(b"u").expect("it is there").user();
        assert_eq!(user.brief_reads(), expected, "{rules}");
    }
}

#[test]
fn brief_reads_of_one_key_are_judged_by_its_prefix() {
    let table = crate::execute::commands();
    let users = users();
    let get = table.find(b"get").expect("a command");
    let strlen = table.find(b"strlen").expect("a command");
    for (rules, key, expected) in [
        ("+@all ~key:*", "key:12345", [true, true]),
        ("+@all ~key:*", "key:1", [true, true]),
        ("+@all ~key:*", "kex:12345", [false, false]),
        ("+@all ~key:*", "ke", [false, false]),
        ("+get ~key:*", "key:12345", [true, false]),
        ("+@all %R~key:*", "key:12345", [true, true]),
        ("+@all %W~key:*", "key:12345", [false, true]),
        ("+@all ~key:?", "key:12345", [false, false]),
        ("+@all ~key:12345", "key:123456", [false, false]),
        ("+@all ~a-longer-prefix:*", "a-longer-prefix:1", [true, true]),
        ("+@all ~a-longer-prefix:*", "a-longer-prefiy:1", [false, false]),
        ("+@all ~x* ~key:*", "key:12345", [true, true]),
        ("+@all", "key:12345", [false, false]),
    ] {
        set(&users, "u", &format!("reset {rules}")).expect("rules");
        let user = users.find(b"u").expect("it is there").user();
        let allows = [get, strlen].map(|id| {
            let flags = table.traits(id).only_key.expect("it has one key");
            user.allows_brief_read(id, Some((flags, key.as_bytes())))
        });
        assert_eq!(allows, expected, "{rules} {key}");
        assert!(!user.allows_brief_read(get, None), "{rules}: several keys");
    }
}

/// A user as rules would leave it that each compare theirs with all before it.
#[derive(Default)]
struct Model {
    passwords: Vec<String>,
    keys: Vec<(String, Access)>,
    channels: Vec<String>,
    commands: Vec<(char, String)>,
}

fn add_once(list: &mut Vec<String>, text: &str) {
    if !list.iter().any(|known| known == text) {
        list.push(text.to_owned());
    }
}

impl Model {
    /// Applies a rule; false if it is refused.
    fn apply(&mut self, rule: &str) -> bool {
        match rule.split_at(1) {
            ("#", hash) => add_once(&mut self.passwords, hash),
            ("!", hash) => {
                let place = self.passwords.iter().position(|known| known == hash);
                return place.map(|place| self.passwords.remove(place)).is_some();
            }
            ("~", pattern) => self.allow_keys(pattern, Access::all()),
            ("%", "R~a") => self.allow_keys("a", Access::READ),
            ("%", "W~a") => self.allow_keys("a", Access::WRITE),
            ("&", pattern) => add_once(&mut self.channels, pattern),
            (_, "esetpass") => self.passwords.clear(),
            (_, "esetkeys") => self.keys.clear(),
            (_, "esetchannels") => self.channels.clear(),
            ("-", "@all") => self.commands.clear(),
            (sign, name) => {
                let replaced = format!("{name}|");
                self.commands.retain(|(_, of)| of != name && !of.starts_with(&replaced));
                self.commands.extend(sign.chars().map(|sign| (sign, name.to_owned())));
            }
        }
        true
    }

    fn allow_keys(&mut self, pattern: &str, access: Access) {
        match self.keys.iter_mut().find(|(known, _)| known == pattern) {
            Some((_, known)) => *known |= access,
            None => self.keys.push((pattern.to_owned(), access)),
        }
    }

    fn describe(&self) -> String {
        let passwords = self.passwords.iter().map(|hash| format!(" #{hash}"));
        let keys = self.keys.iter().map(|(pattern, access)| match *access {
            Access::READ => format!(" %R~{pattern}"),
            Access::WRITE => format!(" %W~{pattern}"),
            _ => format!(" ~{pattern}"),
        });
        let channels = self.channels.iter().map(|channel| format!(" &{channel}"));
        let commands = self.commands.iter().map(|(sign, name)| format!(" {sign}{name}"));
        let before_channels = passwords.chain(keys).collect::<String>();
        let behind: String = channels.chain([" -@all".to_owned()]).chain(commands).collect();
        format!("u off{before_channels} resetchannels{behind}")
    }
}

/// A rule about few things, so that many rules are about the same.
fn random_rule(random: &mut fastrand::Rng) -> String {
    const RARE: [&str; 4] = ["resetpass", "resetkeys", "resetchannels", "-@all"];
    const COMMANDS: [&str; 10] = [
        "+get|a",
        "+get|b",
        "+get",
        "-get",
        "+getdel",
        "+config|get",
        "-config|set",
        "+config",
        "+@read",
        "-@read",
    ];
    let digit = random.u8(0..6);
    match random.u8(0..50) {
        0 => (*random.choice(RARE.iter()).expect("some")).to_owned(),
        1..=10 => format!("#{}", digit.to_string().repeat(64)),
        11..=15 => format!("!{}", digit.to_string().repeat(64)),
        16..=22 => format!("~{digit}"),
        23..=26 => (*random.choice(["~a", "%R~a", "%W~a"].iter()).expect("some")).to_owned(),
        27..=33 => format!("&{digit}"),
        _ => (*random.choice(COMMANDS.iter()).expect("some")).to_owned(),
    }
}

#[test]
fn rules_in_one_request_or_several_leave_what_comparing_each_with_all_would() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut model = Model::default();
        let (once, often) = (users(), users());
        let count = 1 << random.u32(0..9);
        let rules: Vec<String> = (0..count).map(|_| random_rule(&mut random)).collect();
        let rules: Vec<&str> =
            rules.iter().map(String::as_str).filter(|rule| model.apply(rule)).collect();
        set(&once, "u", &rules.join(" ")).expect("no refused rule is among them");
        set(&often, "u", "").expect("no rule");
        let mut rest = &rules[..];
        while !rest.is_empty() {
            let (next, behind) = rest.split_at(random.usize(1..=rest.len().min(20)));
            set(&often, "u", &next.join(" ")).expect("no refused rule is among them");
            rest = behind;
        }
        let [once, often] = [once, often].map(|users| users.find(b"u").expect("made").user());
        assert_eq!(String::from_utf8_lossy(&once.describe()), model.describe(), "seed {seed}");
        assert_eq!(once.describe(), often.describe(), "seed {seed}");
        assert_eq!(once.selectors(), often.selectors(), "seed {seed}");
        assert_eq!(once.text_bytes(), often.text_bytes(), "seed {seed}");
    }
}

#[test]
fn rules_of_a_selector_in_parentheses_are_settled_too() {
    let users = users();
    set(&users, "u", "(%R~b ~a &d &c &d %W~b +get|x +set +get|x +get -set)").expect("rules");
    let user = users.find(b"u").expect("it is there").user();
    let text = b"u off resetchannels -@all (~b ~a resetchannels &d &c -@all +get -set)";
    assert_eq!(user.describe(), text, "{}", user.describe().escape_ascii());
}

#[test]
fn a_first_argument_is_allowed_until_its_command_is_the_subject_of_a_rule() {
    let table = crate::execute::commands();
    let users = users();
    let [get, set_command] = [&b"get"[..], b"set"].map(|name| table.find(name).expect("a command"));
    for (rules, expected) in [
        ("+get|a +get|A +get|b +set|a", [true, true]),
        ("+get|a +set|a -get", [false, true]),
        ("+get|a +set|a +get -get", [false, true]),
        ("+get|a +set|a -@read", [false, true]),
        ("+get|a +set|a -@all", [false, false]),
        ("+get|a -get +get|a", [true, false]),
        ("+get|b +set|b", [false, false]),
    ] {
        set(&users, "u", &format!("reset {rules}")).expect("rules");
        let user = users.find(b"u").expect("it is there").user();
        let commands = &user.selectors()[0].commands;
        let allowed = [get, set_command].map(|id| commands.allows_first_argument(id, Some(b"a")));
        assert_eq!(allowed, expected, "{rules}");
        assert!(!commands.allows_first_argument(get, None), "{rules}");
    }
}
