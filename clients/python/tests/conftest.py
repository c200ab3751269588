"""One gateway for all tests; each test has a handler of its own and sends itself events."""

import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

TESTING = Path(__file__).parents[2] / "testing"
sys.path.insert(0, str(TESTING))

from gateway import Gateway, wait_until  # noqa: E402

_numbers = itertools.count(1)


@dataclass
class Inbox:
    """A handler, and a way to look at what became of its deliveries."""

    gateway: Gateway
    handler: str
    connection: psycopg.Connection[Any]

    @property
    def url(self) -> str:
        return self.gateway.consumer_url

    def receive(self, count: int = 1) -> None:
        self.gateway.send("--type", f"{self.handler}.made", "--count", str(count), "--concurrency", "8")

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, values).fetchall()

    def states(self) -> list[tuple[Any, ...]]:
        sql = "select state, attempt from oncebox.deliveries_v1 where handler = %s order by key"
        return self.rows(sql, self.handler)

    def wait_for(self, states: list[str]) -> None:
        wait_until(lambda: sorted(row[0] for row in self.states()) == sorted(states), f"the states are {states}")

    def last_error(self) -> str:
        return str(self.rows("select last_error from oncebox.deliveries_v1 where handler = %s", self.handler)[0][0])


@pytest.fixture(scope="session")
def gateway() -> Iterator[Gateway]:
    with Gateway(TESTING / "oncebox.toml") as gateway:
        with psycopg.connect(gateway.database_url, autocommit=True) as connection:
            connection.execute("create table effects (handler text, event_id text, who text)")
        yield gateway


@pytest.fixture
def inbox(gateway: Gateway) -> Iterator[Inbox]:
    with psycopg.connect(gateway.database_url, autocommit=True) as connection:
        yield Inbox(gateway, f"h{next(_numbers):02}", connection)


@pytest.fixture
def effects(inbox: Inbox) -> Callable[[], list[tuple[Any, ...]]]:
    return lambda: inbox.rows("select event_id, who from effects where handler = %s order by event_id", inbox.handler)
