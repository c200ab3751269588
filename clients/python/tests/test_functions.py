"""Each function, on a real Postgres, on every kind of connection that the README names."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import oncebox
import psycopg
import pytest
import sqlalchemy
from conftest import Inbox
from sqlalchemy.orm import Session

SECOND = timedelta(seconds=1)


def insert(tx: Any, inbox: Inbox, delivery: oncebox.Delivery, who: str) -> None:
    values = inbox.handler, delivery.event_id, who
    tx.execute("insert into effects values (%s, %s, %s)", values)


def test_once_is_true_once_and_rolls_back_with_the_transaction(inbox: Inbox) -> None:
    with psycopg.connect(inbox.url) as connection:
        assert oncebox.once(connection, "stripe", "evt_1")
        connection.rollback()
        assert oncebox.once(connection, "stripe", "evt_1")
        connection.commit()
        assert not oncebox.once(connection, "stripe", "evt_1")
        assert oncebox.once(connection, "github", "evt_1")


def test_rows_may_come_as_dictionaries(inbox: Inbox) -> None:
    inbox.receive()
    with psycopg.connect(inbox.url, row_factory=psycopg.rows.dict_row) as connection:
        assert oncebox.once(connection, "dictionary", "evt_1")
        assert [one.attempt for one in oncebox.claim(connection, inbox.handler)] == [1]


@pytest.mark.parametrize("kind", ["connection", "session"])
def test_sqlalchemy_passes_its_transaction(inbox: Inbox, kind: str) -> None:
    engine = sqlalchemy.create_engine(inbox.url.replace("postgres://", "postgresql+psycopg://"))
    open_one = engine.connect if kind == "connection" else lambda: Session(engine)
    inbox.receive()
    with open_one() as tx:
        assert oncebox.once(tx, kind, "evt_1")
        tx.rollback()
        assert oncebox.once(tx, kind, "evt_1")
        (one,) = oncebox.claim(tx, inbox.handler, lease=SECOND)
        tx.commit()
        tx.execute(sqlalchemy.text("insert into effects values (:h, :e, 'sa')"), {"h": inbox.handler, "e": one.event_id})
        oncebox.finish(tx, one)
        tx.commit()
        with pytest.raises(oncebox.AlreadyDone):
            oncebox.finish(tx, one)
        tx.rollback()
    assert inbox.states() == [("done", 1)]
    engine.dispose()


def test_a_claim_brings_the_event(inbox: Inbox) -> None:
    inbox.receive()
    with psycopg.connect(inbox.url, autocommit=True) as connection:
        (one,) = oncebox.claim(connection, inbox.handler, max=5, lease=timedelta(minutes=1))
        assert (one.source, one.type, one.attempt) == ("stripe", f"{inbox.handler}.made", 1)
        assert one.json()["id"] == one.event_id
        left = one.lease_until - inbox.rows("select clock_timestamp()")[0][0]
        assert timedelta(seconds=50) < left <= timedelta(minutes=1)
        assert oncebox.extend(connection, one, timedelta(minutes=9)) > one.lease_until
        assert oncebox.claim(connection, inbox.handler) == []
        oncebox.give_back(connection, one)
        assert inbox.states() == [("ready", 0)]
        (one,) = oncebox.claim(connection, inbox.handler)
        assert oncebox.fail(connection, one, "a\0b", retry=False) == "dead"
        assert inbox.last_error() == "a\ufffdb"


def test_paused_past_its_lease_it_rolls_back_and_the_others_writes_stand(
    inbox: Inbox, effects: Callable[[], list[tuple[Any, ...]]]
) -> None:
    inbox.receive()
    with psycopg.connect(inbox.url) as paused, psycopg.connect(inbox.url) as other:
        (stale,) = oncebox.claim(paused, inbox.handler, lease=SECOND)
        paused.commit()
        insert(paused, inbox, stale, "paused")
        time.sleep(1.3)
        current: list[oncebox.Delivery] = []
        while not current:
            current = oncebox.claim(other, inbox.handler)
            other.commit()
        insert(other, inbox, current[0], "other")
        oncebox.finish(other, current[0])
        other.commit()
        with pytest.raises(oncebox.LeaseLost):
            oncebox.finish(paused, stale)
        paused.rollback()
    assert effects() == [(current[0].event_id, "other")]
    assert inbox.states() == [("done", 2)]


def test_versions_only_rise(inbox: Inbox) -> None:
    with psycopg.connect(inbox.url) as tx:
        asked = [(5, False), (5, False), (5, True), (4, True), (6, False)]
        answers = [oncebox.newer(tx, inbox.handler, "sub_1", version, or_equal) for version, or_equal in asked]
    assert answers == [True, False, True, False, True]


def test_a_message_is_written_with_the_mark(inbox: Inbox) -> None:
    inbox.receive()
    with psycopg.connect(inbox.url) as tx:
        (one,) = oncebox.claim(tx, inbox.handler)
        tx.commit()
        oncebox.send(tx, "crm", {"name": "ü"}, delivery=one, step="notify", headers={"x-a": "b"}, path="v1")
        tx.rollback()
        written = oncebox.send(tx, "crm", {"name": "ü"}, delivery=one, step="notify", headers={"x-a": "b"}, path="v1")
        with pytest.raises(psycopg.errors.UniqueViolation), tx.transaction():
            oncebox.send(tx, "crm", "again", delivery=one, step="notify")
        oncebox.finish(tx, one)
        tx.commit()
        assert oncebox.send(tx, "crm", b"\0\xff", key="k") == oncebox.send(tx, "crm", "other", key="k")
    sql = "select id, idempotency_key from oncebox.outbox_v1 where id = %s"
    assert inbox.rows(sql, str(written)) == [(str(written), f"{one.delivery}/crm/notify")]
