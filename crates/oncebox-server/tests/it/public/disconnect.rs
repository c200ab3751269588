//! Clients that hang up at any byte: an event is stored whole or not at all, and nothing stays occupied.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use testkit::database::postgres_query;
use testkit::http::{self, Connection, UnderWay};
use testkit::sender::Signed;
use testkit::{Backend, TestDatabase, contract};

use crate::world::{PATIENCE, Setup, World, custom, wait_until};

const SLOTS: usize = 4;
const CLIENTS: usize = 8;
/// What the bodies of all slots need together is just below what one sender may have of this: one share that is not
/// given back shows.
const BUDGET: &str = "128KiB";
/// What counts as small of each body in this budget.
const SMALL: usize = 2 << 10;
const PAD: usize = 18_000;

contract! {
    async fn hanging_up_at_any_byte_harms_nothing(db: TestDatabase) {
        let world = World::start_with(db, narrow);
        let length = wire(&world, 0).len();
        let head = length - event(0).body.len();
        // Every byte of the head, a spread over the body, the last byte and one before it.
        let cuts: Vec<usize> = (0..=head).chain((head..length).step_by(797)).chain([length - 1, length]).collect();
        for ending in [Ending::Close, Ending::HalfClose, Ending::Reset] {
            in_parallel(&cuts, |number, cut| hang_up(&world, &wire(&world, number)[..cut], ending));
        }
        expect_whole(&world);
        expect_free(&world);
    }

    async fn hanging_up_after_the_last_byte_stores_the_whole_or_nothing(db: TestDatabase) {
        let world = World::start_with(db, narrow);
        let numbers: Vec<usize> = (0..200).collect();
        in_parallel(&numbers, |_, number| {
            let ending = if number % 2 == 0 { Ending::Close } else { Ending::Reset };
            hang_up(&world, &wire(&world, number), ending);
        });
        expect_free(&world);
        expect_whole(&world);
        // Stored or not, the retry is answered and there is one of each.
        for number in 0..200 {
            assert_eq!(world.post("custom", &event(number)).status, 200);
        }
        assert_eq!(world.row_counts()["events"], 200 + i64::try_from(SLOTS).expect("it fits"));
        expect_whole(&world);
    }

    async fn a_half_closed_connection_still_gets_its_answer(db: TestDatabase) {
        let world = World::start(db);
        for number in 0..5 {
            let mut connection = Connection::open(world.addr()).expect("it listens");
            connection.send(&wire(&world, number)).expect("sent");
            connection.finish_sending().expect("it is open");
            assert_eq!(connection.read_answer().expect("an answer").json()["status"], "accepted");
        }
        // Never reading is the client's own loss.
        let deaf: Vec<_> = (5..10).map(|number| {
            let mut connection = Connection::open(world.addr()).expect("it listens");
            connection.send(&wire(&world, number)).expect("sent");
            connection
        }).collect();
        wait_until("all are stored", PATIENCE, || world.row_counts()["events"] == 10);
        drop(deaf);
    }
}

#[derive(Clone, Copy)]
enum Ending {
    Close,
    HalfClose,
    Reset,
}

/// Room for so many requests at once and hardly more bytes than they have.
fn narrow(setup: Setup) -> Setup {
    let large = event(0).body.len() - SMALL;
    let all = SLOTS * large;
    assert!(all <= 64 << 10 && all + large / 2 > 64 << 10, "{all} bytes in all slots");
    setup.server(&format!("in_flight = {SLOTS}\nin_flight_bytes = \"{BUDGET}\""))
}

fn event(number: usize) -> Signed {
    custom(format!(r#"{{"id":"evt_{number:06}","pad":"{}"}}"#, "x".repeat(PAD)))
}

fn wire(world: &World, number: usize) -> Vec<u8> {
    event(number).raw("custom", world.addr())
}

fn hang_up(world: &World, bytes: &[u8], ending: Ending) {
    let mut stream = TcpStream::connect(world.addr()).expect("it listens");
    // The server may have refused already.
    let _ = stream.write_all(bytes);
    match ending {
        Ending::Close => {}
        Ending::HalfClose => {
            let _ = stream.shutdown(Shutdown::Write);
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
            let answer = std::io::Read::read(&mut stream, &mut [0; 12]);
            // An end or an answer, at once: what is half closed is not waited for.
            assert!(answer.is_ok() || answer.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
        }
        Ending::Reset => reset(&stream),
    }
}

/// Closing with no linger time makes the kernel send a reset.
fn reset(stream: &TcpStream) {
    let socket = socket_of(stream);
    socket.set_zero_linger().expect("linger can be set");
}

fn socket_of(stream: &TcpStream) -> tokio::net::TcpStream {
    let copy = stream.try_clone().expect("a socket can be doubled");
    copy.set_nonblocking(true).expect("it can be set");
    tokio::net::TcpStream::from_std(copy).expect("the test runs in a runtime")
}

fn in_parallel(cuts: &[usize], act: impl Fn(usize, usize) + Sync) {
    let runtime = tokio::runtime::Handle::current();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (act, runtime) = (&act, &runtime);
            scope.spawn(move || {
                let _inside = runtime.enter();
                for (number, cut) in cuts.iter().enumerate().skip(client).step_by(CLIENTS) {
                    act(number, *cut);
                }
            });
        }
    });
}

/// Each event has its identity, its bytes and its delivery.
fn expect_whole(world: &World) {
    let whole = || {
        let counts = world.row_counts();
        let all = [counts["ledger"], counts["events"], counts["payloads"], counts["deliveries"]];
        all.iter().all(|count| *count == all[0])
    };
    // The last commits may still be under way, each of them whole.
    wait_until("the tables agree", PATIENCE, whole);
    let odd = format!("select count(*) from {} where state <> 'accepted'", world.db.table("events"));
    assert_eq!(world.db.query(&odd)[0][0], "0");
}

/// All slots are free, all bytes are given back and no transaction is open.
fn expect_free(world: &World) {
    wait_until("the slots are free", PATIENCE, || {
        let wires = (0..SLOTS).map(|slot| wire(world, 900_000 + slot));
        http::blast(world.addr(), wires, SLOTS).iter().all(|outcome| outcome.status() == Some(200))
    });
    // All at once, each with its share of the bytes before the first may end.
    let mut all = UnderWay::all(world.addr(), (0..SLOTS).map(|slot| wire(world, 900_000 + slot)));
    all.send_bodies();
    assert!(all.outcomes().iter().all(|outcome| outcome.status() == Some(200)), "bytes are missing in the budget");
    if world.db.backend() == Backend::Postgres {
        let open = "select count(*) from pg_stat_activity where datname = current_database() \
                    and application_name = 'oncebox' and state like 'idle in transaction%'";
        wait_until("no transaction is open", Duration::from_secs(5), || {
            postgres_query(world.db.url(), open)[0][0] == "0"
        });
    }
}
