//! Positions: searches beside one that looks at every member, and beside a real Valkey; arguments
//! that are hostile.

use std::collections::BTreeSet;

use fastrand::Rng;
use tidemill_resp::reply::Value;

use super::harness::Server;
use super::harness::beside::{Beside, parsed};

/// Number of different members.
const MEMBERS: u32 = 300;

/// Commands in random order over a few keys.
struct Calls {
    random: Rng,
    /// Half the width of the region in which positions lie, in degrees.
    spread: f64,
}

impl Calls {
    fn pick<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.random.usize(..words.len())]
    }

    fn longitude(&mut self) -> f64 {
        (self.random.f64() * 2.0 - 1.0) * self.spread.min(180.0)
    }

    fn latitude(&mut self) -> f64 {
        (self.random.f64() * 2.0 - 1.0) * self.spread.min(85.05)
    }

    fn place(&mut self) -> String {
        format!("{:.*} {}", self.random.usize(1..17), self.longitude(), self.latitude())
    }

    /// Member with its position, in a strip of its own of latitudes: no two are in the same cell of
    /// a geohash, because members at the same distance are answered in the order of Valkey's
    /// partial quicksort when `COUNT` leaves some out.
    fn placed_member(&mut self) -> String {
        let number = self.random.u32(..MEMBERS);
        // Within the middle half of the strip, whose neighbours are several cells away.
        let share = (f64::from(number) + 0.25 + self.random.f64() / 2.0) / f64::from(MEMBERS);
        let latitude = (share * 2.0 - 1.0) * self.spread.min(85.05);
        format!("{:.*} {latitude} m{number}", self.random.usize(1..17), self.longitude())
    }

    fn position(&mut self) -> String {
        match self.random.u32(..40) {
            0 => self.pick(&["180 85.05112878", "-180 -85.05112878", "0 0", "180 0"]).into(),
            1 => self.pick(&["181 0", "0 86", "nan 1", "1 inf", "x 1", "1e400 1"]).into(),
            _ => self.place(),
        }
    }

    fn member(&mut self) -> String {
        format!("m{}", self.random.u32(..MEMBERS))
    }

    fn length(&mut self) -> String {
        if self.random.u32(..30) == 0 {
            return self.pick(&["-1", "x", "inf", "0", "1e300", "nan"]).into();
        }
        // Up to the whole earth, small ones more often.
        let share = self.random.f64();
        format!("{:.2}", share.powi(4) * self.spread * 120_000.0)
    }

    fn unit(&mut self) -> &'static str {
        self.pick(&["m", "km", "ft", "mi", "M", "KM", "m", "m", "m", "xx"])
    }

    fn center(&mut self) -> String {
        match self.random.bool() {
            true => format!("FROMLONLAT {}", self.position()),
            false => format!("FROMMEMBER {}", self.member()),
        }
    }

    fn polygon(&mut self) -> String {
        let count = self.random.usize(3..12);
        let (longitude, latitude) = (self.longitude(), self.latitude());
        let size = self.random.f64() * self.spread / 2.0;
        let corners: Vec<String> = (0..count)
            .map(|nth| {
                let turn = nth as f64 / count as f64 * std::f64::consts::TAU;
                let size = size * (0.2 + self.random.f64());
                let longitude = (longitude + size * turn.cos()).clamp(-180.0, 180.0);
                let latitude = (latitude + size * turn.sin()).clamp(-84.0, 84.0);
                format!("{longitude} {latitude}")
            })
            .collect();
        format!("BYPOLYGON {count} {}", corners.join(" "))
    }

    fn area(&mut self) -> String {
        match self.random.u32(..5) {
            0 | 1 => format!("{} BYRADIUS {} {}", self.center(), self.length(), self.unit()),
            2 | 3 => {
                let (width, height) = (self.length(), self.length());
                format!("{} BYBOX {width} {height} {}", self.center(), self.unit())
            }
            _ => self.polygon(),
        }
    }

    fn options(&mut self, words: &[&str]) -> String {
        let mut options = String::new();
        for _ in 0..self.random.u32(..4) {
            options += " ";
            options += self.pick(words);
        }
        options
    }

    fn command(&mut self) -> String {
        const ORDER: [&str; 6] = ["ASC", "DESC", "COUNT 3", "COUNT 10 ANY", "COUNT 1", "COUNT 0"];
        const SHOWN: [&str; 4] = ["WITHDIST", "WITHHASH", "WITHCOORD", "STOREDIST"];
        let shown = [&ORDER[..], &SHOWN].concat();
        match self.random.u32(..20) {
            0..8 => {
                let condition = self.pick(&["", "", "", "NX ", "XX ", "CH "]);
                let added: Vec<String> =
                    (0..self.random.u32(1..5)).map(|_| self.placed_member()).collect();
                format!("GEOADD g {condition}{}", added.join(" "))
            }
            8 => format!("GEODIST g {} {} {}", self.member(), self.member(), self.unit()),
            9 => format!("GEOHASH g {} {}", self.member(), self.member()),
            10 => format!("GEOPOS g {} {}", self.member(), self.member()),
            11 => format!("ZREM g {}", self.member()),
            12 | 13 => {
                let (position, length, unit) = (self.position(), self.length(), self.unit());
                let stored = self.pick(&["", "", " STORE d", " STOREDIST d"]);
                let options = self.options(&shown);
                format!("GEORADIUS g {position} {length} {unit}{options}{stored}")
            }
            14 => {
                let (member, length, unit) = (self.member(), self.length(), self.unit());
                format!("GEORADIUSBYMEMBER_RO g {member} {length} {unit}{}", self.options(&shown))
            }
            15 => {
                let area = self.area();
                let options = self.options(&[&ORDER[..], &["STOREDIST"]].concat());
                format!("GEOSEARCHSTORE d g {area}{options}")
            }
            _ => {
                let (area, options) = (self.area(), self.options(&shown));
                format!("GEOSEARCH g {area}{options}")
            }
        }
    }
}

#[test]
fn random_calls_are_answered_as_by_valkey() {
    let Some(mut both) = Beside::start() else { return };
    let seed = Rng::new().u64(..);
    println!("seed {seed}");
    for (nth, spread) in [0.01, 1.0, 20.0, 90.0, 180.0].into_iter().enumerate() {
        let mut calls = Calls { random: Rng::with_seed(seed + nth as u64), spread };
        both.check("FLUSHALL");
        for _ in 0..4000 {
            let command = calls.command();
            both.check(&command);
            if command.contains("STORE") {
                both.check("ZRANGE d 0 -1 WITHSCORES");
                both.check("OBJECT ENCODING d");
            }
        }
        both.check("ZRANGE g 0 -1 WITHSCORES");
    }
}

fn texts(value: &Value) -> BTreeSet<String> {
    let text = |value: &Value| match value {
        Value::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("no member: {other:?}"),
    };
    match value {
        Value::Array(items) => items.iter().map(text).collect(),
        other => panic!("no members: {other:?}"),
    }
}

/// Great-circle distance of two places in degrees, m.
fn haversine_m(from: (f64, f64), to: (f64, f64)) -> f64 {
    let half = |one: f64, other: f64| ((other - one).to_radians() / 2.0).sin().powi(2);
    let cosines = from.1.to_radians().cos() * to.1.to_radians().cos();
    let square = half(from.1, to.1) + cosines * half(from.0, to.0);
    2.0 * 6_372_797.560856 * square.sqrt().asin()
}

#[test]
fn searches_find_what_a_look_at_every_member_finds() {
    let mut random = Rng::with_seed(7);
    for round in 0..12 {
        let mut server = Server::new(1, 1_000_000);
        let client = server.connect(0);
        let (longitude, latitude) = (random.f64() * 200.0 - 100.0, random.f64() * 100.0 - 50.0);
        let mut places = Vec::new();
        for nth in 0..400 {
            let place =
                (longitude + random.f64() * 20.0 - 10.0, latitude + random.f64() * 20.0 - 10.0);
            let (name, (east, north)) = (format!("m{nth}"), place);
            server.call(client, &["GEOADD", "g", &east.to_string(), &north.to_string(), &name]);
            places.push((name, place));
        }
        for _ in 0..60 {
            let center = places[random.usize(..places.len())].1;
            let (east, north) = (center.0.to_string(), center.1.to_string());
            let size_m = random.f64().powi(2) * 1_000_000.0;
            let size = size_m.to_string();
            let circle = ["GEOSEARCH", "g", "FROMLONLAT", &east, &north, "BYRADIUS", &size, "m"];
            let square =
                ["GEOSEARCH", "g", "FROMLONLAT", &east, &north, "BYBOX", &size, &size, "m"];
            // A place is known to some decimetres only.
            let is_certain = |distance: f64| (distance - size_m).abs() > 1.0;
            let in_circle = |&place: &(f64, f64)| haversine_m(center, place);
            let in_square = |&place: &(f64, f64)| {
                let across = haversine_m((center.0, place.1), place);
                2.0 * across.max(haversine_m(center, (center.0, place.1)))
            };
            let check = |found: &BTreeSet<String>, distance: &dyn Fn(&(f64, f64)) -> f64| {
                for (name, place) in &places {
                    let distance = distance(place);
                    if is_certain(distance) {
                        let is_within = distance < size_m;
                        assert_eq!(found.contains(name), is_within, "{name}, round {round}");
                    }
                }
            };
            check(&texts(&parsed(&server.call_for_bytes(client, &bytes(&circle)))), &in_circle);
            check(&texts(&parsed(&server.call_for_bytes(client, &bytes(&square)))), &in_square);
        }
    }
}

fn bytes<'w>(words: &[&'w str]) -> Vec<&'w [u8]> {
    words.iter().map(|word| word.as_bytes()).collect()
}

#[test]
fn arguments_are_refused_as_by_valkey() {
    let Some(mut both) = Beside::start() else { return };
    for command in [
        "GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
        "GEOADD g 0 0 zero 0 0 equal",
        "ZADD odd -1 neg 4503599627370496 big 1.5 half inf inf -inf ninf 1e300 huge 1e17 large",
        "SET s x",
    ] {
        both.check(command);
    }
    for protocol in ["HELLO 2", "HELLO 3"] {
        both.ask(&bytes(&protocol.split(' ').collect::<Vec<_>>()));
        for command in REFUSED.lines() {
            both.check(command);
        }
    }
}

/// Calls whose arguments contradict each other, are missing, out of range, or of the wrong type.
const REFUSED: &str = "\
GEOADD g NX XX 1 1 a
GEOADD g NX CH NX
GEOADD g 1 1 a 1
GEOADD s 1 1 a
GEOADD s 1 100 a
GEOADD g 1e400 1 a
GEOADD g -inf 1 a
GEOADD g 180.0000001 1 a
GEODIST g Palermo Catania x
GEODIST g Palermo Catania m m
GEODIST none Palermo Catania x
GEODIST none Palermo Catania
GEODIST s Palermo Catania
GEODIST g Palermo Palermo KM
GEODIST odd neg half
GEODIST odd big half
GEOPOS odd neg big half inf ninf huge large none
GEOPOS none a b
GEOPOS g
GEOHASH odd neg big half inf ninf huge large none
GEOHASH s a
GEOSEARCH odd FROMMEMBER neg BYRADIUS 1 m
GEOSEARCH odd FROMMEMBER half BYRADIUS 100000 km WITHHASH WITHDIST WITHCOORD
GEOSEARCH odd FROMMEMBER big BYRADIUS 100000 km WITHHASH WITHDIST WITHCOORD
GEOSEARCH g FROMLONLAT 1 1 ASC ASC ASC
GEOSEARCH g ASC ASC ASC DESC DESC
GeoSearch g ASC ASC ASC DESC DESC
GEOSEARCH none FROMMEMBER x BYRADIUS 1 m ANY
GEOSEARCH none FROMMEMBER x BYRADIUS 1 m
GEOSEARCH none FROMMEMBER x BYRADIUS -1 m
GEOSEARCH none FROMLONLAT 1 1 FROMMEMBER x BYRADIUS 1 m
GEOSEARCH none FROMMEMBER x FROMLONLAT 1 1 BYRADIUS 1 m
GEOSEARCH none FROMMEMBER x FROMMEMBER y BYRADIUS 1 m
GEOSEARCH g FROMLONLAT 1 1 FROMLONLAT 13 38 BYRADIUS 100 km
GEOSEARCH g FROMMEMBER x BYRADIUS 1 m
GEOSEARCH g FROMMEMBER Palermo BYRADIUS inf m ASC
GEOSEARCH g FROMMEMBER Palermo BYRADIUS nan m
GEOSEARCH g FROMMEMBER Palermo BYRADIUS 1e300 km
GEOSEARCH g FROMMEMBER Palermo BYRADIUS 1e-300 km
GEOSEARCH g FROMMEMBER Palermo BYRADIUS 0 km
GEOSEARCH g FROMMEMBER Palermo BYBOX inf inf km
GEOSEARCH g FROMMEMBER Palermo BYBOX 1e300 1 km
GEOSEARCH g FROMMEMBER Palermo BYBOX 1 -1 km
GEOSEARCH g FROMMEMBER Palermo BYBOX x -1 km
GEOSEARCH g FROMMEMBER Palermo BYBOX 1 x km
GEOSEARCH g FROMMEMBER Palermo BYBOX 1 1 x
GEOSEARCH g FROMMEMBER Palermo BYBOX 1 1 m BYRADIUS 1 m
GEOSEARCH g FROMMEMBER Palermo BYRADIUS 1 m BYRADIUS 200 km
GEOSEARCH g FROMMEMBER zero BYRADIUS 1 m WITHDIST DESC
GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km COUNT 0
GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km COUNT -9223372036854775808
GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km COUNT 9223372036854775807
GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km COUNT 9223372036854775807 ANY
GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km COUNT 9223372036854775808
GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km COUNT
GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km STORE d
GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km STOREDIST
GEOSEARCH g BYPOLYGON 2 10 30 20 30
GEOSEARCH g BYPOLYGON 3 10 30 20 30 15
GEOSEARCH g BYPOLYGON 3 10 30 20 30 15 45 WITHDIST WITHCOORD WITHHASH
GEOSEARCH g BYPOLYGON 3 10 30 20 300 15 45
GEOSEARCH g BYPOLYGON 3 10 30 20 x 15 45
GEOSEARCH g BYPOLYGON 3 10 38 20 38 15 38
GEOSEARCH g BYPOLYGON x 10 30 20 30
GEOSEARCH g BYPOLYGON -1 10 30 20 30
GEOSEARCH g BYPOLYGON 2147483647 10 30 20 30
GEOSEARCH g BYPOLYGON 2147483648 10 30 20 30
GEOSEARCH g BYPOLYGON 9223372036854775807 10 30 20 30
GEOSEARCH g BYPOLYGON 3 10 30 20 30 15 45 FROMLONLAT 1 1
GEOSEARCH g FROMLONLAT 1 1 BYPOLYGON 3 10 30 20 30 15 45
GEOSEARCH g FROMMEMBER Palermo BYPOLYGON 3 10 30 20 30 15 45
GEOSEARCH g BYPOLYGON 3 10 30 20 30 15 45 FROMMEMBER Palermo
GEOSEARCH g BYPOLYGON 3 10 30 20 30 15 45 BYRADIUS 1 m
GEOSEARCH g BYRADIUS 1 m BYPOLYGON 3 10 30 20 30 15 45
GEOSEARCH g BYPOLYGON 3 10 30 20 30 15 45 BYPOLYGON 3 0 30 1 30 1 45
GEOSEARCHSTORE d g FROMMEMBER Palermo ASC DESC ASC
GEOSEARCHSTORE d g ASC ASC ASC ASC ASC
GEOSEARCHSTORE d g BYPOLYGON 3 10 30 20 30 15 45 WITHDIST
GEOSEARCHSTORE d g FROMMEMBER Palermo BYRADIUS 1 m STOREDIST x
GEOSEARCHSTORE d s FROMMEMBER Palermo BYRADIUS 1 m
GEOSEARCHSTORE s none FROMMEMBER Palermo BYRADIUS 1 m
EXISTS s
SET s x
GEORADIUS g 15 37 200 km STORE d WITHDIST
GEORADIUS g 15 37 200 km STORE STORE STOREDIST d
GEORADIUS g 15 37 200 km STORE STOREDIST STORE d
ZRANGE d 0 -1 WITHSCORES
GEORADIUS none 1 1 -1 q
GEORADIUS none 1 100 -1 q
GEORADIUS none 1 1 1 km BYBOX 1 1 m
GEORADIUS s 1 100 -1 q
GEORADIUS_RO g 15 37 200 km STORE d
GEORADIUSBYMEMBER none x y z
GEORADIUSBYMEMBER none x 1 m STORE d
GEORADIUSBYMEMBER none x -1 q STORE
GEORADIUSBYMEMBER g x -1 q STORE
GEORADIUSBYMEMBER g Palermo -1 q STORE
GEORADIUSBYMEMBER_RO g Palermo 1 m STORE x
COMMAND GETKEYS GEORADIUS g 1 1 1 m STORE x STOREDIST y
COMMAND GETKEYS GEORADIUS g 1 1 1 m STORE STOREDIST STORE y
COMMAND GETKEYS GEORADIUS g 1 1 1 m COUNT STORE WITHDIST STORE y
COMMAND GETKEYSANDFLAGS GEORADIUS g 1 1 1 m STORE x STOREDIST y
COMMAND GETKEYSANDFLAGS GEORADIUS g 1 1 1 m
COMMAND GETKEYSANDFLAGS GEORADIUSBYMEMBER g 1 1 m STOREDIST z
COMMAND GETKEYS GEOSEARCHSTORE d g FROMMEMBER Palermo BYRADIUS 1 m
COMMAND INFO geoadd geodist geohash geopos georadius georadius_ro
COMMAND INFO georadiusbymember georadiusbymember_ro geosearch geosearchstore";

#[test]
fn a_polygon_of_many_corners_is_searched_as_by_valkey() {
    let Some(mut both) = Beside::start() else { return };
    let mut random = Rng::with_seed(3);
    for nth in 0..500 {
        let (east, north) = (random.f64() * 20.0 - 10.0, random.f64() * 20.0 - 10.0);
        both.check(&format!("GEOADD g {east} {north} m{nth}"));
    }
    for count in [3, 17, 1000, 100_000] {
        let corners: Vec<String> = (0..count)
            .map(|nth| {
                let turn = f64::from(nth) / f64::from(count) * std::f64::consts::TAU;
                let radius = 5.0 + 3.0 * random.f64();
                format!("{} {}", radius * turn.cos(), radius * turn.sin())
            })
            .collect();
        let corners = corners.join(" ");
        let found = both.check(&format!("GEOSEARCH g BYPOLYGON {count} {corners}"));
        assert!(texts(&found).len() > 10);
        both.check(&format!("GEOSEARCH g BYPOLYGON {count} {corners} COUNT 5 WITHDIST"));
    }
}
