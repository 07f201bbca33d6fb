//! Save points and steps of the wall clock: seconds that pass count, not what it shows.

use tidemill_engine::settings::SavePoint;

use crate::harness::Server;

const START_MS: u64 = 1_700_000_000_000;
const HOUR_MS: u64 = 3_600_000;

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
fn a_step_of_the_wall_clock_makes_no_save_point_due_and_holds_none_back() {
    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    let points = [SavePoint { seconds: 60, changes: 1 }];
    let is_due = |server: &Server| {
        let (now_us, changes) = (server.shared.clock.unix_us(), server.shared.changes());
        server.shared.snapshots.due(&points, now_us, changes).is_some()
    };
    server.clock.advance_ms(61_000);
    assert!(!is_due(&server), "nothing has changed");
    server.clock.set_back_ms(HOUR_MS);
    server.call(client, &words("SET k v"));
    assert!(is_due(&server), "61 s have passed, whatever the wall clock shows");
    let lastsave_s = (START_MS - HOUR_MS) / 1000;
    assert_eq!(server.call(client, &words("LASTSAVE")), format!(":{lastsave_s}\r\n"));

    let mut server = Server::new(1, START_MS);
    let client = server.connect(0);
    server.call(client, &words("SET k v"));
    server.clock.advance_ms(30_000);
    server.clock.set_back_ms(HOUR_MS);
    server.clock.advance_ms(30_000);
    assert!(!is_due(&server), "it is due behind 60 s");
    server.clock.advance_ms(1000);
    assert!(is_due(&server), "61 s have passed");
}
