// How fast another queue works off jobs that do nothing: prints jobs a second, until the last was run and until its end was
// written. Each measurement is a process of its own.
//
//   DATABASE_URL=postgres://postgres@localhost/bench node queue.mjs --queue graphile-local --jobs 20000 [--fail-every 1000]
//
// The database fills with made-up jobs: never use one that you need. Time begins in the middle of a filled queue, so the
// start of a queue does not count against it.

import { parseArgs } from "node:util";
import { graphile } from "./graphile.mjs";
import { pgBoss } from "./pg_boss.mjs";

const WARM_UP_JOBS = 2_000;

const { values: options } = parseArgs({
  options: {
    queue: { type: "string" },
    jobs: { type: "string", default: "20000" },
    "fail-every": { type: "string", default: "0" },
  },
});

const queues = {
  graphile: (work) => graphile(work, { local: false }),
  "graphile-local": (work) => graphile(work, { local: true }),
  "pg-boss": (work) => pgBoss(work, { batch: 1 }),
  "pg-boss-batches": (work) => pgBoss(work, { batch: 100 }),
};
const run = queues[options.queue];
if (!run || !process.env.DATABASE_URL) {
  console.error(`DATABASE_URL and --queue are needed; the queues are ${Object.keys(queues).join(", ")}`);
  process.exit(2);
}
console.log(JSON.stringify(await run(stopwatch(Number(options.jobs), Number(options["fail-every"])))));

/** What a queue is given: how many jobs to add, what to call for each, and how to tell that all were called or written. */
function stopwatch(jobs, failEvery) {
  const total = WARM_UP_JOBS + jobs;
  const rate = () => jobs / (Number(process.hrtime.bigint() - begun) / 1e9);
  let [begun, done, ran, finish] = [0n, 0, 0, undefined];
  const finished = new Promise((resolve) => (finish = resolve));
  const job = () => {
    done++;
    if (done === WARM_UP_JOBS) begun = process.hrtime.bigint();
    if (done === total) finish((ran = rate()));
    if (failEvery > 0 && done % failEvery === failEvery / 2) throw new Error("this one fails");
  };
  const failing = failEvery > 0 ? Math.floor((total + failEvery / 2) / failEvery) : 0;
  const written = () => ({ ran, written: rate() });
  return { database: process.env.DATABASE_URL, total, failing, job, finished, written };
}
