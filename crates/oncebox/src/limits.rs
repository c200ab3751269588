//! Every bound with its reason. What an operator may change is in the config with a range; the rest is here.

use std::time::Duration;

/// Events in one commit: most of the gain of sharing a flush is there at 64, and latency grows with more.
pub const BATCH_EVENTS_MAX: usize = 512;
/// Body bytes in one commit, so that a few large bodies do not make everybody wait.
pub const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Requests waiting for the next commit; beyond it the answer is 503.
pub const WAITING_MAX: usize = 8192;
/// A commit that has waited so long for a standby is answered 503, and so is whatever comes until one is confirmed: a sender
/// that is told at once comes again.
pub const STANDBY_WAIT: Duration = Duration::from_secs(2);
/// How long the rows of a batch may take, its place in the database's line included; after that the answer is 503. Every
/// provider gives up on a request after half a minute or sooner.
pub const WRITE_WAIT: Duration = Duration::from_secs(12);
/// Settled batches that wait for the arrival recorder; beyond it log lines and arrival counts are lost, with a warning.
pub const SETTLED_MAX: usize = 256;
/// How often counted arrivals are written: the contract lets them lag by two seconds.
pub const ARRIVALS_EVERY: Duration = Duration::from_millis(500);
/// Events whose arrivals are counted in memory between two writes; beyond it single arrivals go uncounted, with a log line.
pub const ARRIVALS_KEYS_MAX: usize = 65_536;
/// Latest arrivals kept per event.
pub const ARRIVALS_RECENT_MAX: usize = 8;
/// Rejections kept in memory for people to look at.
pub const REJECTIONS_MAX: usize = 1000;
/// Rows of one page of a list.
pub const PAGE_MAX: usize = 1000;
/// Rows that one page may examine where no index serves its filter.
pub const PAGE_EXAMINED_MAX: usize = 20_000;
/// Identities that nobody has counted yet are looked at up to this where people look.
pub const LEDGER_EXAMINED_MAX: usize = 100_000;
/// What waits is counted up to this where people look: above it they are shown "more".
pub const DEPTH_MAX: usize = 10_000;
/// A body this large is hashed beside the event loop, which would stall otherwise.
pub const BODY_BYTES_INLINE_MAX: usize = 256 * 1024;
/// Deliveries whose effects are committed together: beyond it a commit is a small part of the work, and latency grows.
pub const TRANSACTION_DELIVERIES_MAX: usize = 512;
/// The same where others write meanwhile and no payload travels: there the work is so little that a commit shows.
pub const BARE_TRANSACTION_DELIVERIES_MAX: usize = 1024;
/// Deliveries behind one savepoint: so many run a second time where one of them fails. Sixteen in a transaction are far from
/// the 64 that Postgres keeps at hand.
pub const CHUNK_DELIVERIES_MAX: usize = 64;
/// Deliveries that are tried together after they were lost with their worker once; after that each is tried alone.
pub const LOST_TOGETHER_MAX: usize = 16;
/// Transactions of one handler at once, so that a slow handler leaves the database's connections to the others.
pub const TRANSACTIONS_PER_HANDLER_MAX: usize = 2;
/// Body bytes of deliveries that are handled together, or handed to a consumer by one claim; a single body may go beyond
/// it, as beyond the following ones. A body is in memory up to five times while its statements travel to the database.
pub const CLAIMED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Body bytes in hand for one handler, begun or not.
pub const HANDLER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Body bytes in hand for all handlers of a node; beyond it a handler that has nothing in hand gets one delivery at a time.
pub const NODE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How often an idle node looks for work. It may ask twice a second in all, and others have to look for theirs, too.
pub const POLL_EVERY: Duration = Duration::from_millis(750);
/// How often ended leases are given back: a dead node's work is taken over within its lease and this.
pub const LEASES_EVERY: Duration = Duration::from_secs(4);
/// How often a node writes down that it lives and how far the time came.
pub const TIME_NOTED_EVERY: Duration = Duration::from_secs(30);
/// How long no session must hold the lock of a process before another one of its name takes its claims: whoever lost its
/// session has taken its lock anew by then.
pub const GONE_FOR: Duration = Duration::from_secs(15);
/// Ended calls that are written down together, and that may wait for it.
pub const ENDED_MAX: usize = 256;
/// Units of work that are written down as begun together, and that may wait for it.
pub const BEGUN_MAX: usize = 256;
/// Ended calls of the relay that are written down together, and that may wait for it.
pub const MARKS_MAX: usize = 512;
/// Messages that wait in hand for one destination, beside its calls under way: enough to send on while the next ones are
/// claimed, few enough that a dead relay holds little back.
pub const MESSAGES_AHEAD_MAX: usize = 1024;
/// Body bytes of the messages in hand for one destination; a single message may go beyond it.
pub const MESSAGES_BYTES_MAX: usize = 64 * 1024 * 1024;
