/** The deployments service: numbers and records each push to main and queues the announcement, all or nothing. */

import { Consumer, Reject, send } from "oncebox";
import pg from "pg";

interface Push {
  ref: string;
  after: string;
  repository: { full_name: string };
}

const pool = new pg.Pool({ connectionString: process.env["DATABASE_URL"] });

const consumer = new Consumer<pg.PoolClient>(pool, "deployments", async (tx, delivery) => {
  const push = JSON.parse(delivery.body.toString()) as Push;
  if (!push.repository) throw new Reject("a push has a repository");
  if (push.ref !== "refs/heads/main") return;
  // Counting is what a second run would spoil; here it cannot happen.
  const { rows } = await tx.query<{ deployed: number }>(
    "insert into counters values ($1, 1) on conflict (repository) do update set deployed = counters.deployed + 1 returning deployed",
    [push.repository.full_name],
  );
  await tx.query("insert into deployments values ($1, $2, $3)", [push.repository.full_name, push.after, rows[0]?.deployed]);
  await send(tx, "chat", { deployed: push.after }, { delivery, step: "announce" });
  // What a killed service had claimed is taken over by the others after ten seconds.
}, { lease: 10_000 });

for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => consumer.stop());
await consumer.run();
await pool.end();
