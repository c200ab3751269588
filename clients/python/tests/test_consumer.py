"""The loop: one transaction for work and mark, failures, heartbeats, lost connections, a graceful stop."""

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import oncebox
import psycopg
import pytest
from conftest import Inbox
from gateway import LARGE

Effects = Callable[[], list[tuple[Any, ...]]]
QUICK = {"lease": timedelta(seconds=30), "poll": timedelta(milliseconds=100)}


@contextmanager
def consuming(inbox: Inbox, work: Callable[[Any, oncebox.Delivery], object], **options: Any) -> Iterator[oncebox.Consumer]:
    consumer = oncebox.Consumer(inbox.url, inbox.handler, work, **(QUICK | options))
    thread = threading.Thread(target=consumer.run)
    thread.start()
    try:
        yield consumer
    finally:
        consumer.stop()
        thread.join(30)
        assert not thread.is_alive()


def writing(inbox: Inbox, who: str = "consumer") -> Callable[[Any, oncebox.Delivery], object]:
    def work(tx: Any, one: oncebox.Delivery) -> None:
        tx.execute("insert into effects values (%s, %s, %s)", (inbox.handler, one.event_id, who))

    return work


def test_every_effect_is_there_once(inbox: Inbox, effects: Effects) -> None:
    inbox.receive(40)
    with consuming(inbox, writing(inbox)), consuming(inbox, writing(inbox), max=3):
        inbox.wait_for(["done"] * 40)
    assert len(effects()) == len(set(effects())) == 40


def test_what_fails_rolls_back_and_is_tried_again(inbox: Inbox, effects: Effects) -> None:
    def work(tx: Any, one: oncebox.Delivery) -> None:
        writing(inbox, str(one.attempt))(tx, one)
        if one.attempt == 1:
            raise oncebox.Retry("not yet")
        if one.attempt == 2:
            tx.execute("select 1 / 0")

    inbox.receive()
    with consuming(inbox, work):
        inbox.wait_for(["done"])
    assert [who for _, who in effects()] == ["3"]
    sql = "select a.error from oncebox.attempts a join oncebox.deliveries d using (delivery) where handler = %s order by a.attempt"
    assert inbox.rows(sql, inbox.handler) == [("not yet",), ("DivisionByZero: division by zero",)]


def test_a_rejected_one_is_dead_at_once(inbox: Inbox, effects: Effects) -> None:
    def work(tx: Any, one: oncebox.Delivery) -> None:
        writing(inbox)(tx, one)
        raise oncebox.Reject("never")

    inbox.receive()
    with consuming(inbox, work):
        inbox.wait_for(["dead"])
    assert (inbox.states(), inbox.last_error(), effects()) == ([("dead", 1)], "never", [])


def test_work_longer_than_its_lease_keeps_it(inbox: Inbox, effects: Effects) -> None:
    def work(tx: Any, one: oncebox.Delivery) -> None:
        time.sleep(9)
        writing(inbox)(tx, one)

    inbox.receive(2)
    lease = timedelta(seconds=4)
    with consuming(inbox, work, lease=lease), consuming(inbox, work, lease=lease):
        inbox.wait_for(["done", "done"])
    assert inbox.states() == [("done", 1), ("done", 1)]
    assert len(effects()) == 2


def test_a_stop_finishes_what_runs_and_gives_back_the_rest(inbox: Inbox, effects: Effects) -> None:
    begun = threading.Event()

    def work(tx: Any, one: oncebox.Delivery) -> None:
        begun.set()
        time.sleep(0.5)
        writing(inbox)(tx, one)

    inbox.receive(3)
    with consuming(inbox, work):
        assert begun.wait(30)
    assert sorted(inbox.states()) == [("done", 1), ("ready", 0), ("ready", 0)]
    assert len(effects()) == 1


def test_a_lost_connection_is_opened_again(inbox: Inbox, effects: Effects) -> None:
    def work(tx: Any, one: oncebox.Delivery) -> None:
        writing(inbox)(tx, one)
        if one.attempt == 1:
            tx.execute("select pg_terminate_backend(pg_backend_pid())")

    inbox.receive(2)
    with consuming(inbox, work, max=1, lease=timedelta(seconds=3)):
        inbox.wait_for(["done", "done"])
    assert inbox.states() == [("done", 2), ("done", 2)]
    assert len(effects()) == 2


def test_large_bodies_are_let_go_one_by_one(inbox: Inbox) -> None:
    in_hand: list[int] = []

    def work(tx: Any, one: oncebox.Delivery) -> None:
        held = [each for each in gc.get_objects() if isinstance(each, oncebox.Delivery)]
        in_hand.append(sum(len(each.body) for each in held))

    inbox.gateway.send_large(f"{inbox.handler}.made", 24, LARGE)
    with consuming(inbox, work):
        inbox.wait_for(["done"] * 24)
    # Each is let go after its work, before the next begins.
    assert len(in_hand) == 24
    assert (in_hand[1], min(in_hand)) == (in_hand[0] - LARGE, LARGE)


def test_a_handler_that_is_not_there_ends_the_loop(inbox: Inbox) -> None:
    with pytest.raises(psycopg.errors.UndefinedObject):
        oncebox.Consumer(inbox.url, "nobody", writing(inbox)).run()
