//! Declarations of the commands on lists: a row each, then what differs from the family.

use crate::command::prelude::*;

const LIST: Command = Command::keyed(Group::List, Categories::LIST);

const LEFT_OR_RIGHT: &[Argument] = &[word("LEFT"), word("RIGHT")];

pub(super) const LPUSH: Command = LIST
    .command("lpush", -3, "1.0.0", "Adds elements at the front of a list.")
    .complexity(
        "O(1) for each element added, so O(N) to add N elements when the command is called with \
         multiple arguments.",
    )
    .flags(&[WRITE, DENYOOM, FAST])
    .keys(&[KeySpec::first(&[RW, INSERT])])
    .arguments(&[key("key"), string("element").multiple()])
    .history(&[("2.4.0", "Takes several elements.")]);

pub(super) const RPUSH: Command =
    LPUSH.command("rpush", -3, "1.0.0", "Adds elements at the back of a list.");

pub(super) const LPUSHX: Command = LPUSH
    .command("lpushx", -3, "2.2.0", "Adds elements at the front of a list that exists.")
    .history(&[("4.0.0", "Takes several elements.")]);

pub(super) const RPUSHX: Command =
    LPUSHX.command("rpushx", -3, "2.2.0", "Adds elements at the back of a list that exists.");

pub(super) const LPOP: Command = LIST
    .command("lpop", -2, "1.0.0", "Takes elements from the front of a list.")
    .complexity("O(N) where N is the number of elements returned")
    .flags(&[WRITE, FAST])
    .keys(&[KeySpec::first(&[RW, ACCESS, DELETE])])
    .arguments(&[key("key"), integer("count").optional().since("6.2.0")])
    .history(&[("6.2.0", "Added the `count` argument.")]);

pub(super) const RPOP: Command =
    LPOP.command("rpop", -2, "1.0.0", "Takes elements from the back of a list.");

pub(super) const LMPOP: Command = LIST
    .command("lmpop", -4, "7.0.0", "Takes elements from the first list that has some.")
    .complexity(
        "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
    )
    .flags(&[WRITE, MOVABLEKEYS])
    .keys(&[KeySpec::counted(1, &[RW, ACCESS, DELETE])])
    .arguments(&[
        integer("numkeys"),
        key("key").multiple(),
        one_of("where", LEFT_OR_RIGHT),
        integer("count").token("COUNT").optional(),
    ]);

pub(super) const BLPOP: Command = LIST
    .command(
        "blpop",
        -3,
        "2.0.0",
        "Takes an element from the front of the first list that has one; waits for it.",
    )
    .complexity("O(N) where N is the number of provided keys.")
    .flags(&[WRITE, BLOCKING])
    .keys(&[KeySpec::range(1, -2, &[RW, ACCESS, DELETE])])
    .arguments(&[key("key").multiple(), double("timeout")])
    .history(&[("6.0.0", "`timeout` may have a fraction.")]);

pub(super) const BRPOP: Command = BLPOP.command(
    "brpop",
    -3,
    "2.0.0",
    "Takes an element from the back of the first list that has one; waits for it.",
);

pub(super) const BLMPOP: Command = LIST
    .command(
        "blmpop",
        -5,
        "7.0.0",
        "Takes elements from the first list that has some; waits for them.",
    )
    .complexity(
        "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
    )
    .flags(&[WRITE, BLOCKING, MOVABLEKEYS])
    .keys(&[KeySpec::counted(2, &[RW, ACCESS, DELETE])])
    .arguments(&[
        double("timeout"),
        integer("numkeys"),
        key("key").multiple(),
        one_of("where", LEFT_OR_RIGHT),
        integer("count").token("COUNT").optional(),
    ]);

pub(super) const LMOVE: Command = LIST
    .command("lmove", 5, "6.2.0", "Takes an element from one list and adds it to another.")
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::first(&[RW, ACCESS, DELETE]), KeySpec::one(2, &[RW, INSERT])])
    .arguments(&[
        key("source"),
        key_of(1, "destination"),
        one_of("wherefrom", LEFT_OR_RIGHT),
        one_of("whereto", LEFT_OR_RIGHT),
    ]);

pub(super) const BLMOVE: Command = LMOVE
    .command(
        "blmove",
        6,
        "6.2.0",
        "Takes an element from one list and adds it to another; waits for it.",
    )
    .more_flags(&[BLOCKING])
    .arguments(&[
        key("source"),
        key_of(1, "destination"),
        one_of("wherefrom", LEFT_OR_RIGHT),
        one_of("whereto", LEFT_OR_RIGHT),
        double("timeout"),
    ]);

pub(super) const RPOPLPUSH: Command = LMOVE
    .command(
        "rpoplpush",
        3,
        "1.2.0",
        "Takes the last element of a list and adds it at the front of another.",
    )
    .arguments(&[key("source"), key_of(1, "destination")]);

pub(super) const BRPOPLPUSH: Command = RPOPLPUSH
    .command(
        "brpoplpush",
        4,
        "2.2.0",
        "Takes the last element of a list and adds it at the front of another; waits for it.",
    )
    .more_flags(&[BLOCKING])
    .arguments(&[key("source"), key_of(1, "destination"), double("timeout")])
    .history(&[("6.0.0", "`timeout` may have a fraction.")]);

pub(super) const LLEN: Command = LIST
    .command("llen", 2, "1.0.0", "Answers the length of a list.")
    .flags(&[READONLY, FAST])
    .keys(&[KeySpec::first(&[RO])])
    .arguments(&[key("key")]);

pub(super) const LINDEX: Command = LIST
    .command("lindex", 3, "1.0.0", "Answers the element at a position.")
    .complexity(
        "O(N) where N is the number of elements to traverse to get to the element at index. This \
         makes asking for the first or the last element of the list O(1).",
    )
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), integer("index")]);

pub(super) const LRANGE: Command = LIST
    .command("lrange", 4, "1.0.0", "Answers the elements of a range of positions.")
    .complexity(
        "O(S+N) where S is the distance of start offset from HEAD for small lists, from nearest \
         end (HEAD or TAIL) for large lists; and N is the number of elements in the specified \
         range.",
    )
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), integer("start"), integer("stop")]);

pub(super) const LPOS: Command = LIST
    .command("lpos", -3, "6.0.6", "Finds the positions of an element.")
    .complexity(
        "O(N) where N is the number of elements in the list, for the average case. When \
         searching for elements near the head or the tail of the list, or when the MAXLEN option \
         is provided, the command may run in constant time.",
    )
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[
        key("key"),
        string("element"),
        integer("rank").token("RANK").optional(),
        integer("num-matches").token("COUNT").optional(),
        integer("len").token("MAXLEN").optional(),
    ]);

pub(super) const LSET: Command = LIST
    .command("lset", 4, "1.0.0", "Replaces the element at a position.")
    .complexity(
        "O(N) where N is the length of the list. Setting either the first or the last element of \
         the list is O(1).",
    )
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::first(&[RW, UPDATE])])
    .arguments(&[key("key"), integer("index"), string("element")]);

pub(super) const LINSERT: Command = LIST
    .command("linsert", 5, "2.2.0", "Adds an element before or after another.")
    .complexity(
        "O(N) where N is the number of elements to traverse before seeing the value pivot. This \
         means that inserting somewhere on the left end on the list (head) can be considered \
         O(1) and inserting somewhere on the right end (tail) is O(N).",
    )
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::first(&[RW, INSERT])])
    .arguments(&[
        key("key"),
        one_of("where", &[word("BEFORE"), word("AFTER")]),
        string("pivot"),
        string("element"),
    ]);

pub(super) const LREM: Command = LIST
    .command("lrem", 4, "1.0.0", "Removes elements by value.")
    .complexity("O(N+M) where N is the length of the list and M is the number of elements removed.")
    .flags(&[WRITE])
    .keys(&[KeySpec::first(&[RW, DELETE])])
    .arguments(&[key("key"), integer("count"), string("element")]);

pub(super) const LTRIM: Command = LIST
    .command("ltrim", 4, "1.0.0", "Keeps the elements of a range of positions only.")
    .complexity("O(N) where N is the number of elements to be removed by the operation.")
    .flags(&[WRITE])
    .keys(&[KeySpec::first(&[RW, DELETE])])
    .arguments(&[key("key"), integer("start"), integer("stop")]);
