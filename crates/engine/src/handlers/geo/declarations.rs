//! Declarations of the commands on positions: a row each, then what differs from the family.

use crate::command::prelude::*;

const GEO: Command = Command::keyed(Group::Geo, Categories::GEO);

const UNIT: Argument = one_of("unit", &[word("M"), word("KM"), word("FT"), word("MI")]);

const ORDER: Argument = one_of("order", &[word("ASC"), word("DESC")]).optional();

const COUNT: Argument =
    block("count-block", &[integer("count").token("COUNT"), word("ANY").named("any").optional()])
        .optional();

const COUNT_IN_RADIUS: Argument = block(
    "count-block",
    &[integer("count").token("COUNT"), word("ANY").named("any").optional().since("6.2.0")],
)
.optional();

const WITHCOORD: Argument = word("WITHCOORD").named("withcoord").optional();
const WITHDIST: Argument = word("WITHDIST").named("withdist").optional();
const WITHHASH: Argument = word("WITHHASH").named("withhash").optional();

pub(super) const GEOADD: Command = GEO
    .command("geoadd", -5, "3.2.0", "Adds members with their positions, or moves them.")
    .complexity(
        "O(log(N)) for each item added, where N is the number of elements in the sorted \
         set.",
    )
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::first(&[RW, UPDATE])])
    .arguments(&[
        key("key"),
        one_of("condition", &[word("NX"), word("XX")]).optional().since("6.2.0"),
        word("CH").named("change").optional().since("6.2.0"),
        block("data", &[double("longitude"), double("latitude"), string("member")]).multiple(),
    ])
    .history(&[("6.2.0", "`CH`, `NX` and `XX`.")]);

pub(super) const GEODIST: Command = GEO
    .command("geodist", -4, "3.2.0", "Answers the distance of two members.")
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), string("member1"), string("member2"), UNIT.optional()]);

pub(super) const GEOHASH: Command = GEO
    .command("geohash", -2, "3.2.0", "Answers the positions of members as geohashes.")
    .complexity("O(1) for each member requested.")
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), string("member").optional().multiple()]);

pub(super) const GEOPOS: Command =
    GEOHASH.command("geopos", -2, "3.2.0", "Answers the positions of members.");

const OF_RADIUS: &str = "O(N+log(M)) where N is the number of elements inside the bounding box of \
                         the circular area delimited by center and radius and M is the number of \
                         items inside the index.";

const ANY: &[(&str, &str)] =
    &[("6.2.0", "`ANY` behind `COUNT`."), ("7.0.0", "Units in upper case.")];

pub(super) const GEORADIUS_RO: Command = GEO
    .command("georadius_ro", -6, "3.2.10", "Answers the members around a position.")
    .complexity(OF_RADIUS)
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[
        key("key"),
        double("longitude"),
        double("latitude"),
        double("radius"),
        UNIT,
        WITHCOORD,
        WITHDIST,
        WITHHASH,
        COUNT_IN_RADIUS,
        ORDER,
    ])
    .history(ANY);

const STORE: Argument = one_of(
    "store",
    &[
        key_of(1, "storekey").display("key").token("STORE"),
        key_of(2, "storedistkey").display("key").token("STOREDIST"),
    ],
)
.optional();

pub(super) const GEORADIUS: Command = GEORADIUS_RO
    .command("georadius", -6, "3.2.0", "Answers or stores the members around a position.")
    .flags(&[WRITE, DENYOOM, MOVABLEKEYS])
    .keys(&[
        KeySpec::first(&[RO, ACCESS]),
        KeySpec::behind("STORE", 6, &[OW, UPDATE, VARIABLE_FLAGS]),
        KeySpec::behind("STOREDIST", 6, &[OW, UPDATE, VARIABLE_FLAGS]),
    ])
    .more_keys(super::search::stored_key)
    .arguments(&[
        key("key"),
        double("longitude"),
        double("latitude"),
        double("radius"),
        UNIT,
        WITHCOORD,
        WITHDIST,
        WITHHASH,
        COUNT_IN_RADIUS,
        ORDER,
        STORE,
    ]);

pub(super) const GEORADIUSBYMEMBER_RO: Command = GEORADIUS_RO
    .command("georadiusbymember_ro", -5, "3.2.10", "Answers the members around one of them.")
    .arguments(&[
        key("key"),
        string("member"),
        double("radius"),
        UNIT,
        WITHCOORD,
        WITHDIST,
        WITHHASH,
        COUNT,
        ORDER,
    ]);

pub(super) const GEORADIUSBYMEMBER: Command = GEORADIUS
    .command("georadiusbymember", -5, "3.2.0", "Answers or stores the members around one of them.")
    .keys(&[
        KeySpec::first(&[RO, ACCESS]),
        KeySpec::behind("STORE", 5, &[OW, UPDATE, VARIABLE_FLAGS]),
        KeySpec::behind("STOREDIST", 5, &[OW, UPDATE, VARIABLE_FLAGS]),
    ])
    .arguments(&[
        key("key"),
        string("member"),
        double("radius"),
        UNIT,
        WITHCOORD,
        WITHDIST,
        WITHHASH,
        COUNT,
        ORDER,
        STORE,
    ]);

const FROM: Argument = one_of(
    "from",
    &[
        string("member").token("FROMMEMBER"),
        block("fromlonlat", &[double("longitude"), double("latitude")]).token("FROMLONLAT"),
    ],
)
.optional();

const BY: Argument = one_of(
    "by",
    &[
        block("circle", &[double("radius").token("BYRADIUS"), UNIT]),
        block("box", &[double("width").token("BYBOX"), double("height"), UNIT]),
        block(
            "polygon",
            &[
                integer("num-vertices").token("BYPOLYGON"),
                block("vertices", &[double("longitude"), double("latitude")]).multiple(),
            ],
        )
        .since("9.0.0"),
    ],
);

pub(super) const GEOSEARCH: Command = GEO
    .command("geosearch", -7, "6.2.0", "Answers the members within a circle, box or polygon.")
    .complexity(
        "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area \
         around the shape provided as the filter and M is the number of items inside the shape",
    )
    .flags(&[READONLY])
    .keys(&[KeySpec::first(&[RO, ACCESS])])
    .arguments(&[key("key"), FROM, BY, ORDER, COUNT, WITHCOORD, WITHDIST, WITHHASH])
    .history(&[("7.0.0", "Units in upper case."), ("9.0.0", "`BYPOLYGON`.")]);

pub(super) const GEOSEARCHSTORE: Command = GEOSEARCH
    .command("geosearchstore", -8, "6.2.0", "Stores the members within a circle, box or polygon.")
    .flags(&[WRITE, DENYOOM])
    .keys(&[KeySpec::first(&[OW, UPDATE]), KeySpec::one(2, &[RO, ACCESS])])
    .arguments(&[
        key("destination"),
        key_of(1, "source"),
        FROM,
        BY,
        ORDER,
        COUNT,
        word("STOREDIST").named("storedist").optional(),
    ]);
