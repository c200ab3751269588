// A receiver that has each effect once: the key and the effect are one transaction.
//
// Usage: RECEIVER_SECRET=whsec_… node receiver.js PORT DATABASE
//
// The secret is the destination's: without it anybody who reaches the port could have effects.

import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import pg from "pg";

const [port, database] = [Number(process.argv[2]), process.argv[3]];
const pool = new pg.Pool({ connectionString: database });
await pool.query("CREATE TABLE IF NOT EXISTS effects (key text PRIMARY KEY, body text NOT NULL)");
let calls = 0;
const signingKey = Buffer.from((process.env.RECEIVER_SECRET ?? "").replace(/^whsec_/, ""), "base64");
if (signingKey.length === 0) throw new Error("set RECEIVER_SECRET to the destination's secret");

// Standard Webhooks: id, time and body under our key, and not older than five minutes.
function isGenuine(request: IncomingMessage, body: string): boolean {
  const header = (name: string) => String(request.headers[name] ?? "");
  const [id, sentAt] = [header("webhook-id"), header("webhook-timestamp")];
  if (!/^\d+$/.test(sentAt) || Math.abs(Date.now() / 1000 - Number(sentAt)) > 300) return false;
  const expected = createHmac("sha256", signingKey).update(`${id}.${sentAt}.${body}`).digest();
  return header("webhook-signature").split(" ").some((given) => {
    const signature = Buffer.from(given.replace(/^v1,/, ""), "base64");
    return signature.length === expected.length && timingSafeEqual(signature, expected);
  });
}

async function receive(key: string, body: string): Promise<boolean> {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    // Insert first: the unique key decides, and no row means that we did this before.
    const inserted = await client.query("INSERT INTO effects VALUES ($1, $2) ON CONFLICT DO NOTHING", [key, body]);
    const first = inserted.rowCount === 1;
    // … your own writes, only if first, in this same transaction …
    await client.query("COMMIT");
    return first;
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

async function text(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}

const server = createServer(async (request, response) => {
  const answer = (status: number, value: unknown) => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
  };
  try {
    if (request.method !== "POST") {
      const effects = await pool.query("SELECT count(*)::int AS count FROM effects");
      return answer(200, { calls, effects: effects.rows[0].count });
    }
    const body = await text(request);
    if (!isGenuine(request, body)) return answer(401, { error: "not signed with our secret" });
    const key = request.headers["idempotency-key"];
    if (typeof key !== "string") return answer(400, { error: "no idempotency-key" });
    calls += 1;
    answer(200, { first: await receive(key, body) });
  } catch {
    // Not done, so not 2xx: the message comes again under the same key.
    answer(503, { error: "try again" });
  }
});
server.listen(port, "127.0.0.1");
