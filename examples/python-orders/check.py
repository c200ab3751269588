"""Three services, a storm of duplicates, one of the services killed in the middle: each invoice is booked once."""

import atexit
import os
import subprocess
import sys
import time
from pathlib import Path

import psycopg

INVOICES, COPIES = 5, 30
SERVICE = [sys.executable, str(Path(__file__).with_name("orders.py"))]
SEND = [os.environ["ONCEBOX"], "send", "stripe", "--to", os.environ["ONCEBOX_TO"]]
SEND += ["--secret", os.environ["WEBHOOK_SECRET"], "--type", "invoice.paid"]

services = [subprocess.Popen(SERVICE, env={**os.environ, "PGAPPNAME": f"service {n}"}) for n in (1, 2, 3)]
for one in services:
    atexit.register(one.kill)
storm = subprocess.Popen([*SEND, "--count", str(INVOICES), "--copies", str(COPIES), "--concurrency", "10"])
with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as look:

    def value(sql: str) -> int:
        row = look.execute(sql).fetchone()
        assert row
        return int(row[0])

    def reached(sql: str, wanted: int) -> None:
        end = time.monotonic() + 60
        while value(sql) < wanted:
            assert time.monotonic() < end, f"waited too long: {sql}"
            time.sleep(0.1)

    done = "select count(*) from oncebox.deliveries_v1 where handler = 'orders' and state = 'done'"
    reached(done, 1)
    services.pop().kill()
    assert storm.wait() == 0
    reached(done, INVOICES)
    # The two that are left are at work, and so hear the signal; the session of the third may outlive it for a moment.
    reached(
        "select count(distinct application_name) from pg_stat_activity where datname = current_database() "
        "and application_name in ('service 1', 'service 2') and query like '%oncebox.claim%'",
        2,
    )
    for service in services:
        service.terminate()
    assert [service.wait() for service in services] == [0, 0]
    # Copies are counted within two seconds.
    reached("select sum(arrivals) from oncebox.events_v1", INVOICES * COPIES)
    assert value("select count(*) from orders") == value("select count(distinct invoice) from orders") == INVOICES
    assert value("select sum(paid) from balances") == value("select sum(amount) from orders")
    assert value("select count(*) from oncebox.outbox_v1 where destination = 'mail'") == INVOICES
print(f"python-orders: {INVOICES * COPIES} arrivals, {INVOICES} orders, {INVOICES} receipts")
