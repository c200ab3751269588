/** The functions of the schema `oncebox`, one for one. Each runs in the transaction that it is given. */

/** A client of node-postgres, or two lines around whatever else runs SQL in your transaction. */
export interface Queryable {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
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

/** True the first time, false while remembered. Commits or rolls back with your transaction. */
export async function once(tx: Queryable, scope: string, id: string): Promise<boolean> {
  return (await value(tx, "once($1::text, $2::text)", [scope, id])) as boolean;
}

/** Takes what is due, oldest first, and counts the attempt. Commit it before you begin to work. Lease in milliseconds. */
export async function claim(tx: Queryable, handler: string, options: { max?: number; lease?: number } = {}): Promise<Delivery[]> {
  const text = `select * from oncebox.claim($1::text, $2::int, ${LEASE.replace("$n", "$3")})`;
  const rows = await run(tx, text, [handler, options.max ?? 10, options.lease ?? null]);
  return rows.map((row) => ({
    delivery: String(row["delivery"]), token: String(row["token"]), key: String(row["key"]),
    source: String(row["source"]), eventId: String(row["event_id"]), type: String(row["type"]),
    body: Buffer.from(row["body"] as Uint8Array), attempt: Number(row["attempt"]),
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

/** True if the version is newer than what was applied, and records it. */
export async function newer(
  tx: Queryable, handler: string, orderKey: string, version: number | bigint, orEqual = false,
): Promise<boolean> {
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
