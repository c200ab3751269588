//! The program's own wall clock moved a day forward and back, by a library loaded before the system's: nothing is deleted
//! early, and nothing at all until a person confirms.

use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

use serde_json::json;
use testkit::{TestDatabase, contract, preload};

use super::{act, ask, start};
use crate::handling::{event, wait_for_states};
use crate::world::{PATIENCE, World, wait_until};

/// Adds the seconds that a file holds to every look at the wall clock.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int outcome = real(id, at);
    const char *path = getenv("SHIM_OFFSET");
    if (id == CLOCK_REALTIME && path) {
        FILE *file = fopen(path, "r");
        long by = 0;
        if (file) { if (fscanf(file, "%ld", &by) == 1) at->tv_sec += by; fclose(file); }
    }
    return outcome;
}
"#;

fn stopped(world: &World) -> Option<String> {
    ask(world, "/api/v1/retention")["stopped_because"].as_str().map(str::to_owned)
}

contract! {
    async fn a_day_forward_and_back(db: TestDatabase) {
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        let shim = preload::build(dir.path(), SHIM);
        let offset = dir.path().join("offset");
        let jump = |seconds: i64| fs::write(&offset, seconds.to_string()).expect("the offset can be written");
        jump(0);
        let retention = "[retention]\nledger = \"2h\"\npayload = \"1h\"\nevery = \"1s\"\nforce = true\n\n";
        let mut world = start(db, retention, |setup| {
            let path = |path: &Path| path.to_str().expect("a path is text").to_owned();
            setup.env("LD_PRELOAD", &path(&shim)).env("SHIM_OFFSET", &path(&offset))
        });
        let payloads = |world: &World| world.db.count(&world.db.table("payloads"));
        for number in 0..20 {
            world.expect("custom", &event(number), "accepted");
        }
        wait_for_states(&world, "ledger", &["done"]);
        // Several looks pass between the jumps.
        for seconds in [86_400, 0, -86_400, 0, 86_400] {
            jump(seconds);
            wait_until("the jump is seen", PATIENCE, || stopped(&world).is_some());
            thread::sleep(Duration::from_millis(2500));
            assert_eq!((payloads(&world), world.db.count(&world.db.table("ledger"))), (20, 20), "at {seconds} s");
            assert_eq!(act(&world, "/api/v1/retention/run", &json!({})).0, 409);
        }
        assert!(stopped(&world).is_some_and(|why| why.contains("jumped forward by 24 hours")), "{:?}", stopped(&world));
        // A restart with the clock still a day ahead changes nothing about it.
        world.program.kill9();
        world.program.restart();
        thread::sleep(Duration::from_millis(2500));
        assert_eq!((payloads(&world), stopped(&world).is_some()), (20, true));
        jump(0);
        // A run looks at the clocks first, so that what is confirmed is the last jump.
        assert_eq!(act(&world, "/api/v1/retention/run", &json!({})).0, 409);
        assert_eq!(act(&world, "/api/v1/retention/confirm", &json!({"who": "ann"})).1, json!({"confirmed": true}));
        wait_until("it runs again", PATIENCE, || act(&world, "/api/v1/retention/run", &json!({})).0 == 200);
        assert_eq!(payloads(&world), 20, "nothing is an hour old");
    }
}
