"""What a caller may get wrong. Nothing of it may end `done` without its effect, or mark without working."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import oncebox
import psycopg
import pytest
import sqlalchemy
from conftest import Inbox
from sqlalchemy.ext.asyncio import create_async_engine
from test_consumer import Effects, consuming, writing

ENDED = "the work ended its transaction"


def work_async() -> list[Any]:
    async def coroutine(tx: Any, one: oncebox.Delivery) -> None: ...

    async def generator(tx: Any, one: oncebox.Delivery) -> AsyncIterator[int]:
        yield 1

    def plain(tx: Any, one: oncebox.Delivery) -> Iterator[int]:
        yield 1

    class Called:
        async def __call__(self, tx: Any, one: oncebox.Delivery) -> None: ...

    return [coroutine, generator, plain, Called(), functools.partial(coroutine)]


@pytest.mark.parametrize("work", work_async(), ids=["coroutine", "async generator", "generator", "object", "partial"])
def test_work_that_would_never_run_is_refused_at_once(inbox: Inbox, work: Any) -> None:
    with pytest.raises(TypeError, match="a plain function"):
        oncebox.Consumer(inbox.url, inbox.handler, work)


def test_an_async_way_to_connect_is_refused_at_once(inbox: Inbox) -> None:
    with pytest.raises(TypeError, match="psycopg.Connection"):
        oncebox.Consumer(psycopg.AsyncConnection.connect, inbox.handler, writing(inbox))  # type: ignore[arg-type]


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("place", range(3))
def test_work_that_returns_what_did_not_run_fails_with_the_reason(inbox: Inbox, effects: Effects, place: int) -> None:
    inbox.receive()
    hidden = work_async()[place]

    def work(tx: Any, one: oncebox.Delivery) -> object:
        writing(inbox)(tx, one)
        return hidden(tx, one)

    with consuming(inbox, work):
        inbox.wait_for(["dead"])
    assert "did not run" in inbox.last_error()
    assert effects() == []


@pytest.mark.parametrize(
    "end",
    ["rollback", "commit", "end", "abort", "commit and chain", "rollback; begin", "commit; begin"],
)
def test_work_that_ends_its_transaction_is_a_dead_letter(inbox: Inbox, effects: Effects, end: str) -> None:
    inbox.receive()

    def work(tx: Any, one: oncebox.Delivery) -> None:
        writing(inbox)(tx, one)
        tx.execute(end)

    with consuming(inbox, work):
        inbox.wait_for(["dead"])
    # Once: a commit cannot be taken back, so it must not be made again.
    assert inbox.states() == [("dead", 1)]
    assert ENDED in inbox.last_error()
    assert len(effects()) <= 1


@pytest.mark.parametrize("end", ["commit", "commit; begin"])
def test_a_commit_before_a_failure_is_not_repeated(inbox: Inbox, effects: Effects, end: str) -> None:
    inbox.receive()

    def work(tx: Any, one: oncebox.Delivery) -> None:
        writing(inbox)(tx, one)
        tx.execute(end)
        raise oncebox.Retry("not yet")

    with consuming(inbox, work):
        inbox.wait_for(["dead"])
    assert (inbox.states(), len(effects())) == ([("dead", 1)], 1)
    assert ENDED in inbox.last_error()


def test_savepoints_and_a_second_begin_are_the_works_own(inbox: Inbox, effects: Effects) -> None:
    inbox.receive()

    def work(tx: Any, one: oncebox.Delivery) -> None:
        tx.execute("begin")
        with tx.transaction():
            writing(inbox, "kept")(tx, one)
        tx.execute("savepoint mine")
        writing(inbox, "undone")(tx, one)
        tx.execute("rollback to savepoint mine")

    with consuming(inbox, work):
        inbox.wait_for(["done"])
    assert [who for _, who in effects()] == ["kept"]


def refuses(tx: Any, handler: str) -> None:
    """Neither function may write anything on this connection."""
    with pytest.raises(oncebox.NoTransaction, match="outside of a transaction"):
        oncebox.once(tx, handler, "evt_1")
    with pytest.raises(oncebox.NoTransaction):
        oncebox.newer(tx, handler, "sub_1", 1)


def works(tx: Any, handler: str) -> None:
    assert oncebox.once(tx, handler, "evt_1")
    assert oncebox.newer(tx, handler, "sub_1", 1)


def test_psycopg_in_autocommit_is_refused(inbox: Inbox) -> None:
    with psycopg.connect(inbox.url, autocommit=True) as connection:
        refuses(connection, inbox.handler)
        refuses(connection.cursor(), inbox.handler)
        connection.execute("begin")
        works(connection, inbox.handler)
        connection.execute("rollback")
        with connection.transaction():
            works(connection.cursor(), inbox.handler)


def test_sqlalchemy_in_autocommit_is_refused(inbox: Inbox) -> None:
    engine = sqlalchemy.create_engine(inbox.url.replace("postgres://", "postgresql+psycopg://"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        refuses(connection, inbox.handler)
        refuses(sqlalchemy.orm.Session(connection), inbox.handler)
    with engine.begin() as connection:
        works(connection, inbox.handler)
    engine.dispose()


def test_django_outside_of_atomic_is_refused(inbox: Inbox) -> None:
    import django
    from django.conf import settings
    from django.db import connection, transaction

    parts = psycopg.conninfo.conninfo_to_dict(inbox.url)
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    database = {"ENGINE": "django.db.backends.postgresql"} | {ours: str(parts.get(name, "")) for ours, name in names.items()}
    settings.configure(DATABASES={"default": database})
    django.setup()
    try:
        refuses(connection, inbox.handler)
        refuses(connection.cursor(), inbox.handler)
        with transaction.atomic():
            works(connection, inbox.handler)
            assert not oncebox.once(connection.cursor(), inbox.handler, "evt_1")
    finally:
        connection.close()


def test_a_driver_that_says_nothing_is_asked(inbox: Inbox) -> None:
    class Silent:
        def __init__(self, connection: psycopg.Connection[Any]) -> None:
            self.execute: Callable[..., Any] = connection.execute

    with psycopg.connect(inbox.url, autocommit=True) as connection:
        refuses(Silent(connection), inbox.handler)
        with connection.transaction():
            works(Silent(connection), inbox.handler)


def test_a_cursor_whose_execute_gives_nothing(inbox: Inbox) -> None:
    import psycopg2

    connection = psycopg2.connect(inbox.url)
    works(connection.cursor(), inbox.handler)
    connection.rollback()
    connection.autocommit = True
    refuses(connection.cursor(), inbox.handler)
    connection.close()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_an_async_connection_is_refused_with_the_reason(inbox: Inbox) -> None:
    async def tries() -> None:
        async with await psycopg.AsyncConnection.connect(inbox.url) as connection:
            for tx in (connection, connection.cursor()):
                with pytest.raises(TypeError, match="async"):
                    oncebox.once(tx, inbox.handler, "evt_1")
        engine = create_async_engine(inbox.url.replace("postgres://", "postgresql+psycopg://"))
        async with engine.connect() as outer:
            with pytest.raises(TypeError, match="run_sync"):
                oncebox.once(outer, inbox.handler, "evt_1")
            assert await outer.run_sync(oncebox.once, inbox.handler, "evt_1")
            await outer.commit()
        await engine.dispose()

    asyncio.run(tries())
