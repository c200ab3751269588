"""The functions of the schema `oncebox`, one for one. Each runs in the transaction that it is given."""

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
    """True if the version is newer than what was applied, and records it."""
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


def _call(tx: Any, call: str, *values: Any) -> Any:
    return _rows(tx, f"select oncebox.{call}", *values)[0][0]


def _rows(tx: Any, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """Runs a statement on a psycopg connection or cursor, or on a SQLAlchemy connection or session."""
    if callable(getattr(tx, "connection", None)):
        tx = tx.connection()
    run = getattr(tx, "exec_driver_sql", None) or tx.execute
    try:
        rows = run(sql, values).fetchall()
    except Exception as error:
        driver = getattr(error, "orig", None) or error
        sqlstate = getattr(driver, "sqlstate", None) or getattr(driver, "pgcode", None)
        known = {"OB001": LeaseLost, "OB002": AlreadyDone}.get(str(sqlstate))
        if known is None:
            raise
        raise known(str(driver).splitlines()[0]) from error
    return [tuple(row.values()) if isinstance(row, Mapping) else tuple(row) for row in rows]
