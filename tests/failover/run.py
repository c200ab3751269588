"""Runs faults one after the other under load, and counts. See test.sh."""

import argparse
import ctypes
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path


from cluster import NODES, TTL, Cluster, Network, address, wait
from load import SECRET, Load

FAULTS = ("killed", "frozen", "cut off", "switched over", "without etcd")
PROMOTED_WITHIN = 90


def enter(namespace):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/var/run/netns/{namespace}") as file:
        if libc.setns(file.fileno(), 0x40000000) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


class Oncebox:
    def __init__(self, program, synchronous):
        self.folder = tempfile.TemporaryDirectory(prefix="oncebox-failover-")
        self.port, self.admin = 8080, 8081
        # The first host is never the best one to ask for long: faults go round.
        hosts = ",".join(address(node) for node in NODES)
        survive = "failover" if synchronous else "restart"
        config = f"""
[server]
listen = "127.0.0.1:{self.port}"
admin_listen = "127.0.0.1:{self.admin}"
[store]
url = "postgres://postgres@{hosts}/inbox"
survive = "{survive}"
[[source]]
name = "load"
provider = "custom"
secrets = [{{ value = "{SECRET}" }}]
mac = "hmac-sha256"
msg = "{{body}}"
sig = {{ header = ["x-signature"] }}
id = "json:/id"
type = "json:/type"
[[handler]]
name = "ledger"
sql = "insert into effects (event_id) values (:event_id)"
lease = "5s"
retry = {{ attempts = 1000, base = "50ms", cap = "1s" }}
"""
        file = Path(self.folder.name) / "oncebox.toml"
        file.write_text(config)
        self.log = open(Path(self.folder.name) / "log", "wb")
        self.process = subprocess.Popen([program, "serve", "--config", file], cwd=self.folder.name, stdout=self.log,
                                        stderr=self.log)
        wait("oncebox is ready", self.is_ready, 60)

    def is_ready(self):
        assert self.process.poll() is None, self.tail()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/readyz", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def tail(self):
        return (Path(self.folder.name) / "log").read_text(errors="replace")[-3000:]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def strike(cluster, fault, lag):
    """Lets one fault happen, and gives the moment when another node took writes; none where nobody should."""
    network, leader = cluster.network, cluster.leader()
    assert leader is not None, "the cluster has a leader"

    def another():
        return any(cluster.takes_writes(node) for node in NODES if node != leader)

    def promoted():
        wait(f"another node is promoted, {fault}", another, PROMOTED_WITHIN)
        return time.monotonic()

    if fault == "killed":
        if lag:
            hold_back(cluster, leader)
        cluster.stop_all(leader, signal.SIGKILL)
        moment = promoted()
        cluster.start(leader)
    elif fault == "frozen":
        cluster.stop_all(leader, signal.SIGSTOP)
        moment = promoted()
        cluster.stop_all(leader, signal.SIGCONT)
    elif fault == "cut off":
        network.cut(leader)
        moment = promoted()
        network.join(leader)
    elif fault == "switched over":
        body = json.dumps({"leader": f"node{leader}"}).encode()
        request = urllib.request.Request(f"http://{address(leader)}:8008/switchover", body, method="POST")
        with urllib.request.urlopen(request, timeout=60):
            pass
        moment = promoted()
    else:
        cluster.etcd.send_signal(signal.SIGSTOP)
        stop_children(cluster.etcd.pid, signal.SIGSTOP)
        time.sleep(TTL + 10)
        assert not another(), "nobody is promoted without etcd"
        stop_children(cluster.etcd.pid, signal.SIGCONT)
        cluster.etcd.send_signal(signal.SIGCONT)
        wait("somebody leads again", lambda: cluster.leader() is not None, PROMOTED_WITHIN)
        moment = None
    cluster.wait_whole()
    return moment


def stop_children(parent, number):
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    for pid in children:
        os.kill(int(pid), number)


def hold_back(cluster, leader):
    """Stops what sends the log, so that the standbys are behind by what is acknowledged meanwhile."""
    for (pid,) in cluster.query(leader, "select pid from pg_stat_replication"):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(1.5)


def check(cluster, load):
    """What is lost, double or stuck, once all is quiet."""
    leader = cluster.leader()

    def ask(sql):
        return cluster.query(leader, sql, "inbox")

    open_deliveries = "select count(*) from oncebox.deliveries_v1 where state in ('ready', 'claimed', 'dead')"
    try:
        wait("all is done", lambda: ask(open_deliveries) == [(0,)], 60)
    except TimeoutError:
        pass
    stored = {event for (event,) in ask("select event_id from oncebox.events_v1")}
    done = {event for (event,) in ask("select event_id from effects")}
    lost = [number for number in load.acknowledged if f"evt_{number}" not in stored]
    undone = [number for number in load.acknowledged if f"evt_{number}" in stored and f"evt_{number}" not in done]
    double = ask("select event_id from effects group by event_id having count(*) > 1")
    return {"lost": len(lost), "double": len(double), "stuck": ask(open_deliveries)[0][0] + len(undone)}


def main():
    arguments = argparse.ArgumentParser()
    for name in ("--oncebox", "--programs", "--counts"):
        arguments.add_argument(name, required=True)
    arguments.add_argument("--faults", type=int, required=True)
    asked = arguments.parse_args()
    # Whoever stops it stops what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    counts_file = Path(asked.counts)
    counts = json.loads(counts_file.read_text()) if counts_file.exists() else []

    def note(line):
        counts.append(line)
        counts_file.parent.mkdir(parents=True, exist_ok=True)
        counts_file.write_text(json.dumps(counts, indent=1))
        print(json.dumps(line), flush=True)

    done = [line for line in counts if line["mode"] == "synchronous"]
    if len(done) < asked.faults:
        series(asked, True, range(len(done), asked.faults), note)
    if not any(line["mode"] == "asynchronous" for line in counts):
        series(asked, False, range(1), note)
    report(counts)


def series(asked, synchronous, numbers, note):
    with Network() as network:
        enter(network.hub)
        with Cluster(network, asked.programs, synchronous) as cluster:
            cluster.query(cluster.leader(), "create database inbox")
            cluster.query(cluster.leader(), "create table effects (event_id text)", "inbox")
            oncebox = Oncebox(asked.oncebox, synchronous)
            try:
                first = 0
                for number in numbers:
                    line = one(cluster, oncebox, FAULTS[number % len(FAULTS)] if synchronous else "killed", synchronous, first)
                    first = line.pop("next")
                    note(line)
            except BaseException:
                print(f"--- oncebox\n{oncebox.tail()}\n{cluster.logs()}\n{cluster.describe()}", file=sys.stderr)
                raise
            finally:
                oncebox.stop()


def one(cluster, oncebox, fault, synchronous, first):
    load = Load(oncebox.port, first)
    load.start()
    time.sleep(2)
    begun = time.monotonic()
    moment = strike(cluster, fault, lag=not synchronous)
    time.sleep(2)
    load.finish()
    line = {"mode": "synchronous" if synchronous else "asynchronous", "fault": fault, "acknowledged": len(load.acknowledged)}
    line |= {"answers": load.answers, "next": load.next} | check(cluster, load)
    if moment is not None:
        back = load.first_after(moment)
        line |= {"promoted_after": round(moment - begun, 1), "first_2xx_after": None if back is None else round(back, 2)}
    return line


def report(counts):
    lines = [line for line in counts if line["mode"] == "synchronous"]
    sums = {what: sum(line[what] for line in lines) for what in ("acknowledged", "lost", "double", "stuck")}
    print(f"failover: {len(lines)} faults, {sums}")
    backs = [line["first_2xx_after"] for line in lines if line.get("first_2xx_after") is not None]
    if backs:
        print(f"failover: first 2xx after the promotion: median {statistics.median(backs):.2f} s, worst {max(backs):.2f} s")
    control = [line for line in counts if line["mode"] == "asynchronous"]
    print(f"failover: without synchronous standbys {sum(line['lost'] for line in control)} lost")
    assert sums["lost"] == sums["double"] == sums["stuck"] == 0, "something was lost, done twice or left behind"
    assert sum(line["lost"] for line in control) > 0, "the checker finds no loss where there must be one: the run is void"


if __name__ == "__main__":
    main()
