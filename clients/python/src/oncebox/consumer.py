"""The loop around the functions: claim, your work and `finish` in one transaction, `fail` when it raises."""

import inspect
import logging
import random
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg

from .functions import (
    ENDED, Delivery, LeaseLost, TransactionEnded, claim, extend, fail, finish_marked, give_back, is_marked, mark_transaction,
)

log = logging.getLogger("oncebox")
Connection = psycopg.Connection[Any]


class Retry(Exception):
    """Raise it from your work to try again later."""


class Reject(Exception):
    """Raise it from your work when no try will ever succeed: the delivery becomes a dead letter."""


class Consumer:
    """Runs your work for each delivery of a handler, in one transaction with its mark.

    `connect` is a connection string, or a function that opens a connection. Leases are extended in the background, so
    `lease` is how soon others take over when this process dies, not how long the work may take.
    """

    def __init__(
        self, connect: str | Callable[[], Connection], handler: str, work: Callable[[Connection, Delivery], object], *,
        max: int = 10, lease: timedelta = timedelta(seconds=60), poll: timedelta = timedelta(seconds=1),
    ) -> None:
        if _returns_before_it_runs(work):
            raise TypeError("work must be a plain function: an async one, or one that yields, returns before it has run")
        if inspect.iscoroutinefunction(connect):
            raise TypeError("connect must open a psycopg.Connection; an async connection is for async code")
        self._connect = connect if callable(connect) else lambda: psycopg.connect(connect)
        self._handler, self._work, self._max, self._lease, self._poll = handler, work, max, lease, poll.total_seconds()
        self._stopping = threading.Event()
        self._held: dict[UUID, Delivery] = {}  # Without bodies.

    def stop(self) -> None:
        """Asks the loop to end: what runs is finished, what was not begun is given back."""
        self._stopping.set()

    def stop_on_signals(self) -> "Consumer":
        """Stops on SIGTERM and SIGINT. Call it from the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self.stop())
        return self

    def run(self) -> None:
        """Works until it is asked to stop. A lost connection is opened again."""
        ended = threading.Event()
        beat = threading.Thread(target=self._keep_leases, args=(ended,), name="oncebox-leases", daemon=True)
        beat.start()
        try:
            while not self._stopping.is_set():
                try:
                    with self._open() as connection:
                        self._consume(connection)
                except psycopg.OperationalError as error:
                    log.warning("the database is away: %s", error)
                    self._stopping.wait(1)
        finally:
            ended.set()
            beat.join()

    def _consume(self, connection: Connection) -> None:
        try:
            while not self._stopping.is_set():
                claimed = claim(connection, self._handler, self._max, self._lease)
                if not claimed:
                    self._stopping.wait(self._poll * random.uniform(0.5, 1))
                self._held = {one.delivery: replace(one, body=b"") for one in claimed}
                # A body is let go once its work is done.
                claimed.reverse()
                while claimed:
                    one = claimed.pop()
                    # What the heartbeat found lost is not begun.
                    if not self._stopping.is_set() and one.delivery in self._held:
                        self._attempt(connection, one)
                        self._held.pop(one.delivery, None)
        finally:
            left, self._held = self._held, {}
            for one in left.values():
                # A connection that is gone cannot give back; then the lease ends by itself.
                with suppress(LeaseLost, psycopg.OperationalError):
                    give_back(connection, one)

    def _attempt(self, connection: Connection, one: Delivery) -> None:
        try:
            with connection.transaction():
                mark_transaction(connection)
                self._run_work(connection, one)
                finish_marked(connection, one)
        except LeaseLost as error:
            log.warning("rolled back: %s", error)
        except Exception as error:
            # Without its connection nothing can be said; the lease ends, and the row tells what was committed.
            if connection.closed:
                raise psycopg.OperationalError("the connection was lost") from error
            plain = isinstance(error, (Retry, Reject, TransactionEnded))
            reason = str(error) if plain else f"{type(error).__name__}: {error}"
            log.warning("%s %s failed: %s", one.source, one.event_id, reason, exc_info=not plain)
            # What was committed cannot be taken back, so it must not be done again.
            with suppress(LeaseLost):
                fail(connection, one, reason, retry=not isinstance(error, (Reject, TransactionEnded)))

    def _run_work(self, connection: Connection, one: Delivery) -> None:
        try:
            returned = self._work(connection, one)
        except Exception as error:
            # One that failed by its own SQL cannot be asked, and cannot have been ended.
            with suppress(psycopg.Error):
                if not is_marked(connection):
                    raise TransactionEnded(f"{ENDED}; it failed, too: {error}") from error
            raise
        if inspect.isawaitable(returned) or inspect.isgenerator(returned) or inspect.isasyncgen(returned):
            if close := getattr(returned, "close", None):
                close()
            raise TypeError(f"the work returned a {type(returned).__name__} that did not run; work must be a plain function")

    def _keep_leases(self, ended: threading.Event) -> None:
        """Opens a connection for each beat: none is idle, and the work's own transaction is never in its way."""
        while not ended.wait(self._lease.total_seconds() / 3):
            try:
                if held := self._held:
                    with self._open() as connection:
                        for one in list(held.values()):
                            try:
                                extend(connection, one, self._lease)
                            except LeaseLost:
                                held.pop(one.delivery, None)
            except psycopg.Error as error:
                log.warning("leases could not be extended: %s", error)

    def _open(self) -> Connection:
        connection = self._connect()
        connection.autocommit = True
        # Statements prepared in a session are not there in the next one, which a pooler may give.
        connection.prepare_threshold = None
        return connection


def _returns_before_it_runs(work: Any) -> bool:
    kinds = inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction
    return any(kind(one) for kind in kinds for one in (work, getattr(work, "__call__", None)))
