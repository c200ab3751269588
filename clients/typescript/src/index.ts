/** Exactly-once webhooks inside your own Postgres transaction: the functions of the schema `oncebox`, and a loop. */

export { Consumer, Reject, Retry } from "./consumer.js";
export type { AnyPool, Client, ConsumerOptions, Pool, Work } from "./consumer.js";
export { AlreadyDone, LeaseLost, NoTransaction, TransactionEnded } from "./functions.js";
export { claim, extend, fail, finish, giveBack, newer, once, send } from "./functions.js";
export type { Delivery, Fence, Queryable, SendOptions, Transaction } from "./functions.js";
