// pg-boss: fetch, run, complete, in ten loops. Its own `work` waits half a second between polls, so the loops are ours.

import PgBoss from "pg-boss";

const CONCURRENCY = 10;
const QUEUE = "noop";
const INSERT = 1_000;

export async function pgBoss({ database, total, failing, job, finished, written }, { batch }) {
  const boss = new PgBoss({ connectionString: database, max: CONCURRENCY + 2, supervise: false, schedule: false });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  await boss.createQueue(QUEUE);
  // What a run that was stopped left behind.
  await boss.purgeQueue(QUEUE);
  for (let added = 0; added < total; added += INSERT) {
    const jobs = Array.from({ length: Math.min(INSERT, total - added) }, () => ({ name: QUEUE, data: {}, retryLimit: 0 }));
    await boss.insert(jobs);
  }
  let failed = 0;
  const loop = async () => {
    for (;;) {
      const jobs = await boss.fetch(QUEUE, { batchSize: batch });
      if (jobs.length === 0) return;
      const done = [];
      for (const { id } of jobs) {
        try {
          job();
          done.push(id);
        } catch (error) {
          failed++;
          await boss.fail(QUEUE, id, { message: error.message });
        }
      }
      if (done.length > 0) await boss.complete(QUEUE, done);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, loop));
  await finished;
  const rates = written();
  const left = await boss.getQueueSize(QUEUE, { before: "completed" });
  await boss.stop({ graceful: false });
  if (left > 0 || failed !== failing) throw new Error(`${left} jobs are left, ${failed} failed instead of ${failing}`);
  return rates;
}
