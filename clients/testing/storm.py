"""Consumers in Python and TypeScript and the program's own workers on one handler, killed and paused at random.

Every event must have one effect, none twice, though the table of effects has no unique key. The size comes from
ONCEBOX_STORM_EVENTS and ONCEBOX_STORM_CONSUMERS (of each language); SEED repeats the order of the blows.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import oncebox
import psycopg
from gateway import Gateway, answers_at, free_port, wait_until

HERE = Path(__file__).parent
EVENTS = int(os.environ.get("ONCEBOX_STORM_EVENTS", "1000"))
CONSUMERS = int(os.environ.get("ONCEBOX_STORM_CONSUMERS", "4"))
SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
PATIENCE = 60 + EVENTS / 20
COMMANDS = {
    "python": [sys.executable, __file__, "consume"],
    "typescript": ["node", str(HERE.parent / "typescript/build/test/storm.js")],
}
SCHEMA = "create table effects (event_id text, attempt int, who text); create table listening (name text)"


def work(tx: psycopg.Connection[Any], one: oncebox.Delivery) -> None:
    tx.execute("insert into effects values (%s, %s, 'python')", (one.event_id, one.attempt))
    time.sleep(random.random() * 0.05)


def consume() -> None:
    lease, poll = timedelta(seconds=3), timedelta(milliseconds=200)
    url = os.environ["DATABASE_URL"]
    consumer = oncebox.Consumer(url, "storm", work, max=3, lease=lease, poll=poll).stop_on_signals()
    with psycopg.connect(url) as connection:
        connection.execute("insert into listening values (%s)", (os.environ["STORM_NAME"],))
    consumer.run()


class Storm:
    """The consumers, and what is done to them."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway, self.random, self.blows = gateway, random.Random(SEED), Counter[str]()
        self.spawned, self.names = 0, dict[int, str]()
        self.running = [(who, self.spawn(who)) for who in COMMANDS for _ in range(CONSUMERS)]
        self.paused: list[subprocess.Popen[bytes]] = []
        # A second node, so that a worker can die while the first goes on taking events in.
        ports = {name: f"127.0.0.1:{free_port()}" for name in ("ONCEBOX_LISTEN", "ONCEBOX_ADMIN_LISTEN")}
        self.node_env = gateway.env | ports
        self.node = self.spawn_node()

    def spawn(self, who: str) -> subprocess.Popen[bytes]:
        # What they say about lost leases is expected here.
        self.spawned += 1
        env = self.gateway.env | {"STORM_NAME": f"consumer {self.spawned}"}
        one = subprocess.Popen(COMMANDS[who], env=env, stderr=subprocess.DEVNULL)
        self.names[one.pid] = env["STORM_NAME"]
        return one

    def spawn_node(self) -> subprocess.Popen[bytes]:
        command = [self.gateway.program, "serve", "--config", str(self.gateway.config)]
        return subprocess.Popen(command, env=self.node_env, stdout=subprocess.DEVNULL)

    def strike(self) -> None:
        """Kills one, or pauses one past its lease."""
        chance, place = self.random.random(), self.random.randrange(len(self.running))
        who, victim = self.running[place]
        if chance < 0.1:
            self.node.kill()
            self.node.wait()
            self.node = self.spawn_node()
            self.blows["rust killed"] += 1
        elif chance < 0.25 and victim not in self.paused:
            victim.send_signal(signal.SIGSTOP)
            self.paused.append(victim)
            threading.Timer(4.5, self.wake, [victim]).start()
            self.blows[f"{who} paused"] += 1
        elif victim not in self.paused:
            victim.kill()
            victim.wait()
            self.running[place] = who, self.spawn(who)
            self.blows[f"{who} killed"] += 1

    def wake(self, victim: subprocess.Popen[bytes]) -> None:
        victim.send_signal(signal.SIGCONT)
        self.paused.remove(victim)

    def calm(self, look: psycopg.Connection[Any]) -> None:
        """Asks all to stop; each must end well."""
        while self.paused:
            time.sleep(0.1)
        # The youngest must have come as far as listening for signals.
        living = {self.names[one.pid] for _, one in self.running}
        wait_until(lambda: living <= {name for (name,) in look.execute("select name from listening")}, "all listen")
        wait_until(lambda: answers_at(self.node_env["ONCEBOX_LISTEN"]), "the second node answers")
        for _, one in self.running:
            one.send_signal(signal.SIGTERM)
        self.node.send_signal(signal.SIGTERM)
        ends = Counter(one.wait(60) for one in [self.node, *(one for _, one in self.running)])
        assert set(ends) == {0}, f"consumers ended with {ends}"


def main() -> None:
    print(f"storm: {EVENTS} events, {CONSUMERS} + {CONSUMERS} consumers and the workers, SEED={SEED}", flush=True)
    with Gateway(HERE / "storm.toml", SCHEMA) as gateway, psycopg.connect(gateway.database_url, autocommit=True) as look:

        def count(sql: str) -> int:
            row = look.execute(sql).fetchone()
            assert row
            return int(row[0])

        storm = Storm(gateway)
        sending = threading.Thread(target=gateway.send, args=("--count", str(EVENTS), "--concurrency", "16"))
        started = time.monotonic()
        sending.start()
        while sending.is_alive() or count("select count(*) from oncebox.deliveries where state <> 'done'"):
            assert time.monotonic() - started < PATIENCE, "it does not end"
            time.sleep(storm.random.random() * 0.5)
            storm.strike()
        took = time.monotonic() - started
        storm.calm(look)
        effects = count("select count(*) from effects")
        doubled = count("select count(*) from (select 1 from effects group by event_id having count(*) > 1) d")
        again = count("select count(*) from oncebox.deliveries where attempt > 1")
        shares = dict(look.execute("select who, count(*) from effects group by who").fetchall())
        print(f"storm: {effects} effects, {doubled} doubled, {again} tried again, {took:.0f} s, {shares}, {dict(storm.blows)}")
        assert (count("select count(*) from oncebox.events"), effects, doubled) == (EVENTS, EVENTS, 0)
        assert again and len(shares) == 3 and sum(storm.blows.values()) > 5, "the storm was none"


if __name__ == "__main__":
    consume() if sys.argv[1:] == ["consume"] else main()
