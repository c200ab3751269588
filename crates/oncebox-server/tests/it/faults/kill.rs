//! SIGKILL at random moments under load, again and again: whatever was answered 2xx is there, byte for byte, and its
//! effect is committed once.
//!
//! `ONCEBOX_TEST_KILLS` sets the number of cycles, `ONCEBOX_TEST_SEED` repeats a run.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use testkit::effects::EffectReport;
use testkit::http::Connection;
use testkit::ledger::{Ledger, Outcome, Signature};
use testkit::program::Program;
use testkit::sender::Signed;
use testkit::{TestDatabase, contract};

use crate::chance::{Random, number};
use crate::handling::{self, LEDGER};
use crate::world::{PATIENCE, World, custom};

const SENDERS: usize = 16;
const CYCLES: usize = 25;

contract! {
    async fn nothing_acknowledged_is_lost(db: TestDatabase) {
        let mut random = Random::seeded();
        let cycles = number("ONCEBOX_TEST_KILLS").unwrap_or(CYCLES);
        let world = handling::start(db, &LEDGER.replace("attempts = 3", "attempts = 100"));
        let load = Load::new(world.addr());
        let World { mut program, db } = world;
        let started = Instant::now();
        let mut unanswered = 0;
        for _ in 0..cycles {
            cycle(&load, &mut program, &mut random);
            program.restart();
            unanswered += load.stored_without_an_answer(&db);
        }
        let elapsed = started.elapsed();
        // Everything that was left open is sent once more and must be answered now.
        load.settle();
        let report = load.ledger.check(&db);
        let stored = db.count(&db.table("events"));
        let (ok, info) = (load.ledger.count(Outcome::Ok), load.ledger.count(Outcome::Info));
        println!(
            "kill on {:?}: {cycles} cycles in {:.1} s, {} requests, {ok} answered 2xx, {info} left open, of which \
             {unanswered} were stored, {stored} stored in all, lost {} phantom {}",
            db.backend(), elapsed.as_secs_f64(), load.ledger.records().len(), report.lost.len(), report.phantom.len(),
        );
        let processed = effects_of(&db);
        println!(
            "kill on {:?}: effects {}, double {} missing {} unmarked {} stuck {} dead {}, dup_non2xx {}",
            db.backend(), db.count("effects"), processed.double.len(), processed.missing.len(), processed.unmarked.len(),
            processed.stuck.len(), processed.dead.len(), load.ledger.duplicates_refused().len(),
        );
        report.assert_clean();
        processed.assert_clean();
        assert!(processed.dead.is_empty(), "{processed:?}");
        assert_eq!(load.ledger.duplicates_refused(), [""; 0]);
        let interrupted = db.query(&format!("select count(*) from {} where outcome = 'lost'", db.table("attempts")));
        println!("attempts that a kill cut off: {}", interrupted[0][0]);
        // On a machine that is busy with something else there may be too few of them to hit.
        assert!(cycles < 10 || stored < 100 || interrupted != [["0"]], "no kill fell into an attempt");
        assert_eq!(load.ledger.count(Outcome::Fail), 0);
        assert!(info >= cycles / 2, "the kills must hit requests under way, but only {info} were left open");
        assert!(cycles < 10 || unanswered > 0, "no kill fell between a commit and its answer");
        let whole = db.row_counts();
        assert_eq!((whole["events"], whole["payloads"], whole["deliveries"]), (stored, stored, stored));
        assert_eq!(whole["ledger"], stored);
    }
}

/// What processing left, once nothing is under way any more, or after a bound that nothing may exceed.
fn effects_of(db: &TestDatabase) -> EffectReport {
    let started = Instant::now();
    loop {
        let report = EffectReport::of(db, "ledger");
        if report.stuck.is_empty() || started.elapsed() > PATIENCE {
            return report;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Lets the senders run for a random moment, kills the program under them, and stops them.
fn cycle(load: &Load, program: &mut Program, random: &mut Random) {
    load.running.store(true, Ordering::Release);
    let moment = Duration::from_micros(20_000 + random.below(250_000));
    thread::scope(|scope| {
        for number in 0..SENDERS {
            let seed = random.next();
            scope.spawn(move || load.send(number, Random::new(seed)));
        }
        // The random moment itself is what is under test: there is nothing to wait for.
        thread::sleep(moment);
        program.kill9();
        load.running.store(false, Ordering::Release);
    });
}

/// Senders that post new events, copies of what was sent before, and again what was left open.
struct Load {
    addr: String,
    ledger: Ledger,
    next: AtomicUsize,
    open: Mutex<Vec<usize>>,
    running: AtomicBool,
}

impl Load {
    fn new(addr: &str) -> Self {
        Self {
            addr: addr.to_owned(),
            ledger: Ledger::new("kill"),
            next: AtomicUsize::new(0),
            open: Mutex::default(),
            running: AtomicBool::new(false),
        }
    }

    fn send(&self, sender: usize, mut random: Random) {
        let mut connection = None;
        while self.running.load(Ordering::Acquire) {
            let left_open = self.lock_open().pop();
            let begun = self.next.load(Ordering::Relaxed);
            let event = match left_open {
                Some(event) => event,
                None if sender.is_multiple_of(4) && begun > 0 => begun - 1 - random.index(begun.min(50)),
                None => self.next.fetch_add(1, Ordering::Relaxed),
            };
            self.exchange(&mut connection, event);
        }
    }

    /// Events that a kill caught between the commit and the answer: proof that it hit requests under way.
    fn stored_without_an_answer(&self, db: &TestDatabase) -> usize {
        let mut open: BTreeSet<String> = self.lock_open().iter().map(|event| format!("evt_{event}")).collect();
        for record in self.ledger.records().iter().filter(|record| record.outcome == Outcome::Ok) {
            open.remove(&record.id);
        }
        let stored: BTreeSet<String> = db
            .query(&format!("select event_id from {}", db.table("events")))
            .into_iter()
            .map(|mut row| row.remove(0))
            .collect();
        open.intersection(&stored).count()
    }

    /// Sends until nothing is open any more.
    fn settle(&self) {
        let open = std::mem::take(&mut *self.lock_open());
        for event in open {
            self.exchange(&mut None, event);
        }
        let open = self.lock_open();
        assert!(open.is_empty(), "{} requests got no answer from a program that nobody killed", open.len());
    }

    fn lock_open(&self) -> MutexGuard<'_, Vec<usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exchange(&self, kept: &mut Option<Connection>, event: usize) {
        let signed = body_of(event);
        let Some(mut connection) = kept.take().or_else(|| Connection::open(&self.addr).ok()) else {
            // Nothing was sent, so there is nothing to write down; the program is dead or not yet up.
            self.lock_open().push(event);
            return;
        };
        let sent = connection.send(&signed.raw("custom", &self.addr));
        let status = sent.and_then(|()| connection.read_answer()).map(|answer| answer.status).ok();
        self.ledger.record("custom", &format!("evt_{event}"), &signed.body, Signature::Good, status);
        match status {
            Some(200) => *kept = Some(connection),
            _ => self.lock_open().push(event),
        }
    }
}

/// Bodies differ in length, so that commits differ in size.
fn body_of(event: usize) -> Signed {
    custom(format!(r#"{{"id":"evt_{event}","type":"load","pad":"{}"}}"#, "x".repeat(event * 37 % 3000)))
}
