/** The functions of the schema `oncebox`, one for one. Each runs in the transaction that it is given. */

/** A client of node-postgres, or two lines around whatever else runs SQL in your transaction. */
export interface Queryable {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

/** An open transaction. What a pool runs is committed at once, so a pool is none. */
export interface Transaction extends Queryable {
  totalCount?: never;
  getTransactionStatus?(): string | null;
}

/** What proves that a delivery is yours. */
export interface Fence { delivery: string; token: string }

/** A claimed delivery. */
export interface Delivery extends Fence {
  key: string;
  source: string; eventId: string; type: string;
  body: Buffer;
  attempt: number;
  receivedAt: Date; leaseUntil: Date;
}

/** Somebody else has the delivery: roll back, it runs there. */
export class LeaseLost extends Error {}

/** The delivery was finished with this very token, perhaps by a commit whose answer was lost: roll back. */
export class AlreadyDone extends LeaseLost {}

/** No transaction is open: the mark would be committed alone, before the work that it stands for. */
export class NoTransaction extends Error {}

/** The work ended the transaction that it was given, so its effect and its mark are not one. */
export class TransactionEnded extends Error {
  constructor(more = "", options?: ErrorOptions) {
    super("the work ended its transaction (commit or rollback), so its writes and the delivery's mark are not one; take that " +
      "out, look whether the writes are there, and replay it if they are not" + more, options);
  }
}

/** True the first time, false while remembered. Commits or rolls back with your transaction. */
export async function once(tx: Transaction, scope: string, id: string): Promise<boolean> {
  await needTransaction(tx, "remembered");
  return (await value(tx, "once($1::text, $2::text)", [scope, id])) as boolean;
}

/** Takes what is due, oldest first, and counts the attempt. Commit it before you begin to work. Lease in milliseconds. */
export async function claim(tx: Queryable, handler: string, options: { max?: number; lease?: number } = {}): Promise<Delivery[]> {
  const text = `select * from oncebox.claim($1::text, $2::int, ${LEASE.replace("$n", "$3")})`;
  const rows = await run(tx, text, [handler, options.max ?? 10, options.lease ?? null]);
  return rows.map((row) => ({
    delivery: String(row["delivery"]), token: String(row["token"]), key: String(row["key"]),
    source: String(row["source"]), eventId: String(row["event_id"]), type: String(row["type"]),
    body: bytes(row["body"] as Uint8Array), attempt: Number(row["attempt"]),
    receivedAt: new Date(row["received_at"] as string | Date), leaseUntil: new Date(row["lease_until"] as string | Date),
  }));
}

/** Marks a delivery done, in the transaction of its effect. Throws LeaseLost: then everything must roll back. */
export async function finish(tx: Queryable, fence: Fence): Promise<void> {
  await value(tx, "finish($1::uuid, $2::uuid)::text", [fence.delivery, fence.token]);
}

/** Ends an attempt that failed, and says what the delivery is now. */
export async function fail(tx: Queryable, fence: Fence, reason: string, retry = true): Promise<"ready" | "dead"> {
  const values = [fence.delivery, fence.token, reason.replaceAll("\0", "\ufffd"), retry];
  return (await value(tx, "fail($1::uuid, $2::uuid, $3::text, $4::boolean)", values)) as "ready" | "dead";
}

/** Keeps a delivery for so many milliseconds from now (the handler's lease without them), and says until when. */
export async function extend(tx: Queryable, fence: Fence, lease?: number): Promise<Date> {
  const call = `extend($1::uuid, $2::uuid, ${LEASE.replace("$n", "$3")})`;
  return new Date((await value(tx, call, [fence.delivery, fence.token, lease ?? null])) as string | Date);
}

/** Puts a delivery back that was not begun; no attempt was used. */
export async function giveBack(tx: Queryable, fence: Fence): Promise<void> {
  await value(tx, "give_back($1::uuid, $2::uuid)::text", [fence.delivery, fence.token]);
}

/** True if the version is newer than what was applied, and records it in your transaction. */
export async function newer(
  tx: Transaction, handler: string, orderKey: string, version: number | bigint, orEqual = false,
): Promise<boolean> {
  await needTransaction(tx, "versions");
  const call = "newer($1::text, $2::text, $3::text::bigint, $4::boolean)";
  return (await value(tx, call, [handler, orderKey, String(version), orEqual])) as boolean;
}

/** What a message may have beside its body. */
export interface SendOptions {
  delivery?: Fence | string; step?: string;
  path?: string; method?: string; headers?: Record<string, string>;
  key?: string; orderKey?: string;
}

/** Writes an outbox message in your transaction and gives its id. Anything but bytes and text is sent as JSON. */
export async function send(
  tx: Queryable, destination: string, body: Uint8Array | string | object, options: SendOptions = {},
): Promise<string> {
  const { delivery, headers } = options;
  const raw = body instanceof Uint8Array || typeof body === "string" ? body : JSON.stringify(body);
  const writer = typeof delivery === "object" ? delivery.delivery : delivery;
  const values = [destination, Buffer.from(raw as string), writer, options.step, options.path, options.method];
  const rest = [headers && JSON.stringify(headers), options.key, options.orderKey];
  const call = "send($1::text, $2::bytea, $3::uuid, $4::text, $5::text, $6::text, $7::text::jsonb, $8::text, $9::text)";
  return String(await value(tx, call, [...values, ...rest].map((one) => one ?? null)));
}

/** Begins a transaction with a mark that ends with it; savepoints do not touch it. */
export const BEGIN_MARKED = "begin; select set_config('oncebox.tx', 'open', true)";
const MARKED = "current_setting('oncebox.tx', true) = 'open'";

/** As `finish`, in the transaction that was marked and in no other. */
export async function finishMarked(tx: Queryable, fence: Fence): Promise<void> {
  const text = `select oncebox.finish($1::uuid, $2::uuid)::text where ${MARKED}`;
  if ((await run(tx, text, [fence.delivery, fence.token])).length === 0) throw new TransactionEnded();
}

/** Whether the marked transaction is over. One that failed by its own SQL cannot be asked, and cannot have been ended. */
export async function hasEnded(tx: Queryable): Promise<boolean> {
  return await tx.query(`select 1 where ${MARKED}`).then((answer) => answer.rows.length === 0, () => false);
}

/** Refuses what commits each statement by itself, before anything is written. */
async function needTransaction(tx: Transaction, table: string): Promise<void> {
  if (typeof (tx as { totalCount?: unknown }).totalCount === "number") throw new NoTransaction(ALONE);
  if (tx.getTransactionStatus?.() === "T") return;
  // Only a transaction may hold a lock. It is the one that the write takes anyway.
  await tx.query(`lock table oncebox.${table} in row exclusive mode`).catch((error: unknown) => {
    throw sqlstate(error) === "25P01" ? new NoTransaction(ALONE, { cause: error }) : error;
  });
}

const ALONE = "oncebox was called outside of a transaction: the mark would be kept even if the work fails. Take a client " +
  "(pool.connect()), begin, call oncebox and do the work on that client, then commit";

/** The same bytes, not a copy: they may be many. */
function bytes(body: Uint8Array): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
}

const LEASE = "make_interval(secs => $n::float8 / 1000)";

async function value(tx: Queryable, call: string, values: unknown[]): Promise<unknown> {
  return (await run(tx, `select oncebox.${call} as value`, values))[0]?.["value"];
}

async function run(tx: Queryable, text: string, values: unknown[]): Promise<Record<string, unknown>[]> {
  try {
    return (await tx.query(text, values)).rows as Record<string, unknown>[];
  } catch (error) {
    const code = sqlstate(error);
    if (code === "OB001") throw new LeaseLost(String((error as Error).message), { cause: error });
    if (code === "OB002") throw new AlreadyDone(String((error as Error).message), { cause: error });
    throw error;
  }
}

/** Drivers say it in `code`, Drizzle in its cause, Prisma below `meta`. */
function sqlstate(error: unknown): unknown {
  const { code, cause, meta, driverAdapterError } = (error ?? {}) as Record<string, unknown>;
  const inner = cause ?? meta ?? driverAdapterError;
  return inner && !String(code).startsWith("OB") ? sqlstate(inner) : code;
}
