"""The recipe of docs/other-database.md: the mark is in the database of the effect."""

import sqlite3
from datetime import timedelta
from pathlib import Path

import oncebox
import psycopg
from conftest import Inbox, wait_until

TABLE = Path(__file__).parents[3] / "docs/sql/other_database.sql"


def apply_once(mine: sqlite3.Connection, handler: str, delivery: oncebox.Delivery) -> None:
    with mine:
        mine.execute("begin immediate")
        mark = "insert into oncebox_effects values (?, ?) on conflict do nothing"
        if mine.execute(mark, (handler, delivery.key)).rowcount == 0:
            return
        mine.execute("insert into orders values (?)", (delivery.event_id,))


def test_a_death_between_the_two_commits_doubles_nothing(inbox: Inbox, tmp_path: Path) -> None:
    mine = sqlite3.connect(tmp_path / "mine.db", isolation_level=None)
    mine.executescript(TABLE.read_text() + "create table orders (id text);")
    inbox.receive(3)
    with psycopg.connect(inbox.url, autocommit=True) as tx:
        first = oncebox.claim(tx, inbox.handler, lease=timedelta(seconds=1))
        for delivery in first:
            apply_once(mine, inbox.handler, delivery)
        oncebox.finish(tx, first[0])
        # It dies here: two effects are committed and nobody was told.
        again: list[oncebox.Delivery] = []
        wait_until(lambda: again.extend(oncebox.claim(tx, inbox.handler)) or len(again) == 2, "the leases ended")
        for delivery in again:
            apply_once(mine, inbox.handler, delivery)
            oncebox.finish(tx, delivery)
    assert sorted(inbox.states()) == [("done", 1), ("done", 2), ("done", 2)]
    assert mine.execute("select count(*), count(distinct id) from orders").fetchone() == (3, 3)
