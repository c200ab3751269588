"""Three Patroni nodes, each in a network namespace of its own, and etcd in a fourth one, where the test itself runs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import psycopg2

HUB = "10.77.0.254"
NODES = (1, 2, 3)
VENV = Path(sys.executable).parent
# The shortest that Patroni takes. A primary that is gone is replaced after the first of them.
TTL, LOOP, RETRY = 20, 2, 4


def run(*command):
    subprocess.run(command, check=True)


class Network:
    """A bridge in a namespace, and a namespace for each node on it. Nothing of it is reachable from outside."""

    def __init__(self):
        self.name = f"oncebox-{os.getpid()}"
        self.hub = f"{self.name}-hub"

    def of(self, node):
        return f"{self.name}-{node}"

    def __enter__(self):
        run("ip", "netns", "add", self.hub)
        inside = ("ip", "-n", self.hub)
        run(*inside, "link", "set", "lo", "up")
        run(*inside, "link", "add", "bridge", "type", "bridge")
        run(*inside, "address", "add", f"{HUB}/24", "dev", "bridge")
        run(*inside, "link", "set", "bridge", "up")
        for node in NODES:
            space = self.of(node)
            run("ip", "netns", "add", space)
            run(*inside, "link", "add", f"port{node}", "type", "veth", "peer", "name", "eth0", "netns", space)
            run(*inside, "link", "set", f"port{node}", "master", "bridge", "up")
            run("ip", "-n", space, "link", "set", "lo", "up")
            run("ip", "-n", space, "address", "add", f"{address(node)}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")
        return self

    def __exit__(self, *_):
        for space in [self.of(node) for node in NODES] + [self.hub]:
            for pid in self.pids(space):
                kill(pid, signal.SIGKILL)
            subprocess.run(["ip", "netns", "delete", space], check=False)

    def pids(self, space):
        found = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=False).stdout
        return [int(pid) for pid in found.split() if int(pid) != os.getpid()]

    def cut(self, node):
        run("ip", "-n", self.hub, "link", "set", f"port{node}", "down")

    def join(self, node):
        run("ip", "-n", self.hub, "link", "set", f"port{node}", "up")


def address(node):
    return f"10.77.0.{node}"


def kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Cluster:
    def __init__(self, network, programs, synchronous):
        self.network, self.programs, self.synchronous = network, programs, synchronous
        self.folder = Path(tempfile.mkdtemp(prefix="oncebox-failover-", dir="/tmp"))
        self.folder.chmod(0o755)
        # Python may be below a folder of root's own: they may read it all the same.
        reads = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        self.user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *reads]
        self.etcd = None

    def __enter__(self):
        self.start_etcd()
        for node in NODES:
            folder = self.folder / str(node)
            folder.mkdir()
            shutil.chown(folder, "postgres", "postgres")
            (folder / "patroni.json").write_text(json.dumps(self.config(node)))
        try:
            for node in NODES:
                self.start(node)
            self.wait_whole()
        except BaseException:
            print(self.logs(), file=sys.stderr)
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for space in [self.network.of(node) for node in NODES]:
            for pid in self.network.pids(space):
                kill(pid, signal.SIGKILL)
        if self.etcd:
            self.etcd.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_etcd(self):
        (self.folder / "etcd").mkdir(exist_ok=True)
        url = f"http://{HUB}:2379"
        command = [VENV / "etcd", "--data-dir", self.folder / "etcd", "--listen-client-urls", url,
                   "--advertise-client-urls", url, "--listen-peer-urls", "http://127.0.0.1:2380", "--log-level", "error"]
        self.etcd = subprocess.Popen(["ip", "netns", "exec", self.network.hub, *command],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def config(self, node):
        own = self.folder / str(node)
        settings = {
            "max_connections": 100, "shared_buffers": "64MB", "wal_log_hints": "on", "max_wal_senders": 10,
            "hot_standby": "on", "wal_keep_size": "512MB",
        }
        dcs = {
            "ttl": TTL, "loop_wait": LOOP, "retry_timeout": RETRY, "maximum_lag_on_failover": 64 * 1024 * 1024,
            "synchronous_mode": self.synchronous, "synchronous_mode_strict": self.synchronous,
            "postgresql": {"use_pg_rewind": True, "use_slots": True, "parameters": settings},
        }
        trust = ["local all all trust", "host all all 10.77.0.0/24 trust", "host replication all 10.77.0.0/24 trust",
                 "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
        return {
            "scope": "inbox", "name": f"node{node}", "log": {"level": "WARNING"},
            "restapi": {"listen": f"{address(node)}:8008", "connect_address": f"{address(node)}:8008"},
            "etcd3": {"host": f"{HUB}:2379"},
            "bootstrap": {"dcs": dcs, "initdb": [{"encoding": "UTF8"}, {"locale": "C"}], "pg_hba": trust},
            "postgresql": {
                "listen": f"{address(node)},127.0.0.1:5432", "connect_address": f"{address(node)}:5432",
                "parameters": {"unix_socket_directories": str(own)},
                "data_dir": str(own / "data"), "bin_dir": self.programs, "pg_hba": trust, "pgpass": str(own / "pgpass"),
                "remove_data_directory_on_rewind_failure": True, "remove_data_directory_on_diverged_timelines": True,
                "authentication": {"superuser": {"username": "postgres"}, "replication": {"username": "postgres"}},
            },
        }

    def start(self, node):
        own = self.folder / str(node)
        log = open(own / "log", "ab")
        subprocess.Popen(["ip", "netns", "exec", self.network.of(node), *self.user, VENV / "patroni",
                          own / "patroni.json"], stdout=log, stderr=log, env={**os.environ, "LC_ALL": "C", "HOME": str(own)})

    def pids(self, node):
        return self.network.pids(self.network.of(node))

    def stop_all(self, node, number):
        for pid in self.pids(node):
            kill(pid, number)

    # What the nodes say of themselves.

    def role(self, node):
        try:
            with urllib.request.urlopen(f"http://{address(node)}:8008/patroni", timeout=0.5) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            try:
                return json.load(error)
            except ValueError:
                return {}
        except (OSError, ValueError):
            return {}

    def takes_writes(self, node):
        try:
            with urllib.request.urlopen(f"http://{address(node)}:8008/primary", timeout=0.5) as answer:
                return answer.status == 200
        except (OSError, ValueError):
            return False

    def leader(self):
        return next((node for node in NODES if self.takes_writes(node)), None)

    def query(self, node, sql, database="postgres"):
        connection = psycopg2.connect(host=address(node), user="postgres", dbname=database, connect_timeout=3)
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def is_whole(self):
        leader = self.leader()
        if leader is None:
            return False
        try:
            for node in NODES:
                self.query(node, "select 1")
            streaming = self.query(leader, "select count(*) from pg_stat_replication where state = 'streaming'")
            names = self.query(leader, "show synchronous_standby_names")
        except psycopg2.Error:
            return False
        return streaming == [(2,)] and (names != [("",)]) == self.synchronous and self.has_heir(leader) == self.synchronous

    def has_heir(self, leader):
        """Whether etcd knows a synchronous standby: without one nobody is promoted, whatever Postgres has."""
        try:
            with urllib.request.urlopen(f"http://{address(leader)}:8008/cluster", timeout=2) as answer:
                return any(member["role"] in ("sync_standby", "quorum_standby") for member in json.load(answer)["members"])
        except (OSError, ValueError, KeyError):
            return False

    def wait_whole(self, patience=180):
        wait("the cluster is whole", self.is_whole, patience)

    def describe(self):
        return {node: self.role(node).get("role") for node in NODES}

    def logs(self):
        tails = [(self.folder / str(node) / "log").read_text(errors="replace")[-1500:] for node in NODES]
        return "\n".join(f"--- node{node}\n{tail}" for node, tail in zip(NODES, tails))


def wait(what, condition, patience):
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {patience} s")
        time.sleep(0.1)
