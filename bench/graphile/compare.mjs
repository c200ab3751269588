// Handling beside graphile-worker, in turns on one Postgres: each round measures every contender once, each ratio is
// taken within a round, and the median over the rounds is what counts. Absolute figures of different runs say little.
//
//   npm install --prefix bench/graphile
//   node bench/graphile/compare.mjs --database postgres://postgres@localhost/bench [--lab target/release/lab]
//       [--rounds 5] [--events 20000] [--jobs 20000]
//
// The database fills with made-up events and jobs: never use one that you need.
//
// Jobs of graphile-worker do nothing; ours claim, write one effect row and mark it done in one transaction. Its time
// runs from one execution to another in the middle of a filled queue, so neither its start nor its last completions
// count against it.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";

const CONCURRENCY = 10;
const WARM_UP_JOBS = 2_000;
const LOCAL_QUEUE = 500;

const { values: options } = parseArgs({
  options: {
    database: { type: "string" },
    lab: { type: "string", default: "target/release/lab" },
    rounds: { type: "string", default: "5" },
    events: { type: "string", default: "20000" },
    jobs: { type: "string", default: "20000" },
    // Measures graphile-worker once and prints the rate: each measurement is a process of its own, as ours are.
    graphile: { type: "string" },
  },
});
if (!options.database) {
  console.error("--database is missing: the URL of a Postgres database that may be filled");
  process.exit(2);
}
if (options.graphile) {
  console.log(await graphile(options.graphile === "local", Number(options.jobs)));
} else {
  await compare(Number(options.rounds));
}

async function compare(rounds) {
  const all = [];
  for (let round = 1; round <= rounds; round++) {
    // Whoever is first in one round is later in the next.
    const contenders = [
      ["postgres", () => oncebox(["--database", options.database])],
      ["plain", () => graphileProcess("plain")],
      ["sqlite", () => oncebox([])],
      ["local", () => graphileProcess("local")],
    ];
    const figures = {};
    for (let nth = 0; nth < contenders.length; nth++) {
      const [name, measure] = contenders[(nth + round) % contenders.length];
      figures[name] = await measure();
    }
    all.push(figures);
    console.error(`round ${round} of ${rounds}: ${JSON.stringify(figures)}`);
  }
  report(all);
}

function report(all) {
  const line = (name, of, digits) => {
    const values = all.map(of);
    const shown = [median(values), Math.min(...values), Math.max(...values)].map((value) => value.toFixed(digits));
    console.log(`${name.padEnd(64)}${shown[0].padStart(10)}   (${shown[1]} – ${shown[2]})`);
  };
  console.log(`\n${all.length} rounds; median (lowest – highest)\n\nevents or jobs a second`);
  for (const database of ["postgres", "sqlite"]) {
    for (const way of Object.keys(all[0][database])) {
      line(`oncebox, ${database}: ${way}`, (round) => round[database][way], 0);
    }
  }
  line(`graphile-worker, concurrency ${CONCURRENCY}`, (round) => round.plain, 0);
  line(`graphile-worker, concurrency ${CONCURRENCY}, local queue ${LOCAL_QUEUE}`, (round) => round.local, 0);
  console.log("\nratios");
  line("P9  in batches ÷ graphile-worker", (round) => round.postgres.batches / round.plain, 2);
  line("    one by one, ten at once ÷ graphile-worker", (round) => round.postgres.ten_at_once / round.plain, 2);
  line("P10 in batches, 1 in 1,000 failing ÷ local queue", (round) => round.postgres.batches_failing / round.local, 2);
  line("    in batches ÷ local queue", (round) => round.postgres.batches / round.local, 2);
  line("P11 in batches, SQLite ÷ Postgres", (round) => round.sqlite.batches / round.postgres.batches, 2);
}

async function oncebox(args) {
  const bench = ["handling", "--json", "--rounds", "1", "--events", options.events, ...args];
  const { stdout } = await promisify(execFile)(options.lab, bench);
  return Object.fromEntries(JSON.parse(stdout).ways.map((way) => [way.key, way.median]));
}

async function graphileProcess(way) {
  const args = [fileURLToPath(import.meta.url), "--graphile", way, "--database", options.database, "--jobs", options.jobs];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return Number(stdout);
}

async function graphile(local, jobs) {
  const { default: pg } = await import("pg");
  const { Logger, run, runMigrations } = await import("graphile-worker");
  const pgPool = new pg.Pool({ connectionString: options.database, max: CONCURRENCY + 2 });
  pgPool.on("error", (error) => console.error(error));
  pgPool.on("connect", (client) => client.on("error", (error) => console.error(error)));
  const quiet = new Logger(() => () => {});
  await runMigrations({ pgPool, logger: quiet });
  // What a run that was stopped left behind.
  await pgPool.query("delete from graphile_worker._private_jobs");
  const count = async () => (await pgPool.query("select count(*)::int as n from graphile_worker.jobs")).rows[0].n;
  await pgPool.query(
    `select count(*) from graphile_worker.add_jobs(array(
       select json_populate_record(null::graphile_worker.job_spec, json_build_object('identifier', 'noop', 'payload', '{}'::json))
       from generate_series(1, $1::int)))`,
    [WARM_UP_JOBS + jobs],
  );
  const batched = { localQueue: { size: LOCAL_QUEUE }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
  const worker = { concurrentJobs: CONCURRENCY, ...(local ? batched : {}) };
  let done = 0;
  let begun;
  const last = Promise.withResolvers?.() ?? withResolvers();
  const noop = async () => {
    done++;
    if (done === WARM_UP_JOBS) begun = process.hrtime.bigint();
    if (done === WARM_UP_JOBS + jobs) last.resolve(process.hrtime.bigint());
  };
  const runner = await run({ pgPool, logger: quiet, noHandleSignals: true, preset: { worker }, taskList: { noop } });
  const ended = await last.promise;
  let left = await count();
  for (let tries = 0; left > 0 && tries < 100; tries++) {
    await new Promise((again) => setTimeout(again, 100));
    left = await count();
  }
  await runner.stop();
  await pgPool.end();
  if (left > 0) throw new Error(`${left} jobs are left: their completion was not written`);
  return jobs / (Number(ended - begun) / 1e9);
}

function withResolvers() {
  let resolve;
  const promise = new Promise((found) => (resolve = found));
  return { promise, resolve };
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}
