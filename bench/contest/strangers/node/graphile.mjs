// graphile-worker: one job at a time in each of ten places, or a local queue with completions in batches.

import { Logger, run, runMigrations } from "graphile-worker";
import pg from "pg";

const CONCURRENCY = 10;
const LOCAL_QUEUE = 500;

export async function graphile({ database, total, failing, job, finished, written }, { local }) {
  const pgPool = new pg.Pool({ connectionString: database, max: CONCURRENCY + 2 });
  // It asks for a listener of ours on each.
  pgPool.on("error", (error) => console.error(error));
  pgPool.on("connect", (client) => client.on("error", (error) => console.error(error)));
  const logger = new Logger(() => () => {});
  await runMigrations({ pgPool, logger });
  // What a run that was stopped left behind.
  await pgPool.query("delete from graphile_worker._private_jobs");
  await pgPool.query(
    `select count(*) from graphile_worker.add_jobs(array(
       select json_populate_record(null::graphile_worker.job_spec,
                                   json_build_object('identifier', 'noop', 'payload', '{}'::json, 'max_attempts', 1))
       from generate_series(1, $1::int)))`,
    [total],
  );
  const batched = { localQueue: { size: LOCAL_QUEUE }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
  const worker = { concurrentJobs: CONCURRENCY, ...(local ? batched : {}) };
  const taskList = { noop: async () => job() };
  const runner = await run({ pgPool, logger, noHandleSignals: true, preset: { worker }, taskList });
  await finished;
  // Those that failed stay.
  const count = async () => (await pgPool.query("select count(*)::int as n from graphile_worker._private_jobs")).rows[0].n;
  const givenUp = Date.now() + 10_000;
  let left = await count();
  while (left !== failing && Date.now() < givenUp) {
    await new Promise((again) => setTimeout(again, 2));
    left = await count();
  }
  const rates = written();
  await runner.stop();
  await pgPool.end();
  if (left !== failing) throw new Error(`${left} jobs are left where ${failing} failed: a completion was not written`);
  return rates;
}
