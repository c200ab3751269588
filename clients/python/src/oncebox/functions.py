"""The functions of the schema `oncebox`, one for one. Each runs in the transaction that it is given."""

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID


class LeaseLost(Exception):
    """Somebody else has the delivery: roll back, it runs there."""


class AlreadyDone(LeaseLost):
    """The delivery was finished with this very token, perhaps by a commit whose answer was lost: roll back."""


class NoTransaction(Exception):
    """No transaction is open: the mark would be committed alone, before the work that it stands for."""


class TransactionEnded(Exception):
    """The work ended the transaction that it was given, so its effect and its mark are not one."""


@dataclass(frozen=True)
class Delivery:
    """A claimed delivery."""

    delivery: UUID
    token: UUID
    key: str
    source: str
    event_id: str
    type: str
    body: bytes
    attempt: int
    received_at: datetime
    lease_until: datetime

    @property
    def _fence(self) -> tuple[str, str]:
        return str(self.delivery), str(self.token)

    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


def once(tx: Any, scope: str, id: str) -> bool:
    """True the first time, false while remembered. Commits or rolls back with your transaction."""
    _need_transaction(tx, "remembered")
    return bool(_call(tx, "once(%s::text, %s::text)", scope, id))


def claim(tx: Any, handler: str, max: int = 10, lease: timedelta | None = None) -> list[Delivery]:
    """Takes what is due, oldest first, and counts the attempt. Commit it before you begin to work."""
    rows = _rows(tx, "select * from oncebox.claim(%s::text, %s::int, %s::interval)", handler, max, lease)
    return [Delivery(UUID(str(r[0])), UUID(str(r[1])), *r[2:6], bytes(r[6]), *r[7:]) for r in rows]  # type: ignore[call-arg]


def finish(tx: Any, delivery: Delivery) -> None:
    """Marks a delivery done, in the transaction of its effect. Raises LeaseLost: then everything must roll back."""
    _call(tx, "finish(%s::uuid, %s::uuid)::text", *delivery._fence)


def fail(tx: Any, delivery: Delivery, reason: str, retry: bool = True) -> str:
    """Ends an attempt that failed, and says what the delivery is now: `ready` or `dead`."""
    values = *delivery._fence, reason.replace("\0", "\ufffd"), retry
    return str(_call(tx, "fail(%s::uuid, %s::uuid, %s::text, %s::boolean)", *values))


def extend(tx: Any, delivery: Delivery, lease: timedelta | None = None) -> datetime:
    """Keeps a delivery for so long from now, and says until when."""
    until: datetime = _call(tx, "extend(%s::uuid, %s::uuid, %s::interval)", *delivery._fence, lease)
    return until


def give_back(tx: Any, delivery: Delivery) -> None:
    """Puts a delivery back that was not begun; no attempt was used."""
    _call(tx, "give_back(%s::uuid, %s::uuid)::text", *delivery._fence)


def newer(tx: Any, handler: str, order_key: str, version: int, or_equal: bool = False) -> bool:
    """True if the version is newer than what was applied, and records it in your transaction."""
    _need_transaction(tx, "versions")
    return bool(_call(tx, "newer(%s::text, %s::text, %s::bigint, %s::boolean)", handler, order_key, version, or_equal))


def send(
    tx: Any, destination: str, body: bytes | str | Mapping[str, Any] | Sequence[Any], *,
    delivery: Delivery | UUID | None = None, step: str | None = None, path: str | None = None, method: str | None = None,
    headers: Mapping[str, str] | None = None, key: str | None = None, order_key: str | None = None,
) -> UUID:
    """Writes an outbox message in your transaction and gives its id. Anything but bytes and text is sent as JSON."""
    raw = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    writer = delivery.delivery if isinstance(delivery, Delivery) else delivery
    fields = json.dumps(dict(headers)) if headers is not None else None
    values = destination, raw, writer and str(writer), step, path, method, fields, key, order_key
    call = "send(%s::text, %s::bytea, %s::uuid, %s::text, %s::text, %s::text, %s::jsonb, %s::text, %s::text)"
    return UUID(str(_call(tx, call, *values)))


def mark_transaction(tx: Any) -> None:
    """Gives the open transaction a mark that ends with it; savepoints do not touch it."""
    _run(tx, "select set_config('oncebox.tx', 'open', true)")


def is_marked(tx: Any) -> bool:
    """Whether the marked transaction is still the one that is open."""
    return bool(_rows(tx, f"select 1 where {MARKED}"))


def finish_marked(tx: Any, delivery: Delivery) -> None:
    """As `finish`, in the transaction that was marked and in no other."""
    if not _rows(tx, f"select oncebox.finish(%s::uuid, %s::uuid)::text where {MARKED}", *delivery._fence):
        raise TransactionEnded(ENDED)


MARKED = "current_setting('oncebox.tx', true) = 'open'"
ENDED = (
    "the work ended its transaction (commit or rollback), so its writes and the delivery's mark are not one; take that out, "
    "look whether the writes are there, and replay it if they are not"
)
ALONE = (
    "this connection commits each statement by itself, and oncebox was called outside of a transaction: the mark would be "
    "kept even if the work fails. Open one around both: `with connection.transaction():` in psycopg, `with engine.begin()` in "
    "SQLAlchemy, `with transaction.atomic():` in Django"
)
ASYNC = (
    "oncebox needs a connection whose calls block, and this one is async: use `await connection.run_sync(oncebox.once, …)` in "
    "SQLAlchemy, or a psycopg.Connection in a thread"
)


def _need_transaction(tx: Any, table: str) -> None:
    """Refuses a connection that commits by itself, before anything is written."""
    tx = _runner(tx)
    is_open = _is_open(tx)
    if is_open is None:
        # Only a transaction may hold a lock. It is the one that the write takes anyway.
        try:
            _run(tx, f"lock table oncebox.{table} in row exclusive mode")
        except Exception as error:
            if _sqlstate(error) != "25P01":
                raise
            raise NoTransaction(ALONE) from error
    elif not is_open:
        raise NoTransaction(ALONE)


def _is_open(tx: Any) -> bool | None:
    """What the driver says about its transaction, or None where it says nothing."""
    pooled = getattr(tx, "connection", None)
    for one in (tx, pooled, getattr(pooled, "dbapi_connection", None), getattr(pooled, "driver_connection", None)):
        autocommit = getattr(one, "autocommit", None)
        if autocommit is False:
            return True  # It begins one by itself.
        status = getattr(getattr(one, "info", None), "transaction_status", None)
        if autocommit is True and status is not None:
            return int(status) != 0
    return None


def _runner(tx: Any) -> Any:
    """What runs SQL: a psycopg connection, a cursor of any driver, a SQLAlchemy connection or session, Django's connection."""
    if any(inspect.iscoroutinefunction(getattr(tx, name, None)) for name in ("execute", "exec_driver_sql")):
        raise TypeError(ASYNC)
    if hasattr(tx, "in_atomic_block"):
        return tx.cursor()
    connection = getattr(tx, "connection", None)
    return connection() if callable(connection) else tx


def _call(tx: Any, call: str, *values: Any) -> Any:
    return _rows(tx, f"select oncebox.{call}", *values)[0][0]


def _run(tx: Any, sql: str, *values: Any) -> Any:
    tx = _runner(tx)
    run = getattr(tx, "exec_driver_sql", None) or tx.execute
    # A cursor may answer nothing and hold the rows itself.
    return run(sql, values) or tx


def _rows(tx: Any, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    try:
        rows = _run(tx, sql, *values).fetchall()
    except Exception as error:
        known = {"OB001": LeaseLost, "OB002": AlreadyDone}.get(_sqlstate(error))
        if known is None:
            raise
        raise known(str(getattr(error, "orig", None) or error).splitlines()[0]) from error
    return [tuple(row.values()) if isinstance(row, Mapping) else tuple(row) for row in rows]


def _sqlstate(error: Exception) -> str:
    """Drivers have two names for it, SQLAlchemy and Django wrap them."""
    driver = getattr(error, "orig", None) or error
    for one in (driver, driver.__cause__):
        if code := getattr(one, "sqlstate", None) or getattr(one, "pgcode", None):
            return str(code)
    return ""
