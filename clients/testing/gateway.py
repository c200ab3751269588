"""A gateway for tests and examples: a fresh database, `oncebox serve` on free ports, both gone at the end.

    gateway.py CONFIG [--large HANDLER] [--schema FILE] COMMAND…

runs a command beside one, with an application's own tables made first, and 24 large events for a handler. The command finds the database in DATABASE_URL and sends with `$ONCEBOX send stripe`.
ONCEBOX_TEST_POSTGRES names the server on which the database is made, ONCEBOX the program; ONCEBOX_TEST_POOLER (host:port)
a pooler in transaction mode that the command's DATABASE_URL leads through.
"""

import hmac
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from urllib.request import Request, urlopen

import psycopg

PATIENCE = 60.0
LARGE = 4_000_000


def answers_at(address: str) -> bool:
    """Whether a server answers there."""
    try:
        return bool(urlopen(f"http://{address}/healthz", timeout=5).status == 200)
    except OSError:
        return False


class Gateway:
    """A running gateway; a context manager that cleans up."""

    def __init__(self, config: Path, schema: str = "") -> None:
        self.schema = schema
        self.program = os.environ["ONCEBOX"]
        self.config = config.resolve()
        self.name = f"clients_{os.getpid()}_{secrets.token_hex(4)}"
        self.admin = os.environ["ONCEBOX_TEST_POSTGRES"]
        self.database_url = urlunsplit(urlsplit(self.admin)._replace(path=f"/{self.name}"))
        direct = urlsplit(self.database_url)
        user, at, host = direct.netloc.rpartition("@")
        host = os.environ.get("ONCEBOX_TEST_POOLER", host)
        self.consumer_url = urlunsplit(direct._replace(netloc=user + at + host))
        self.port, self.admin_port = free_port(), free_port()
        self.secret = "whsec_" + secrets.token_hex(16)
        self.env = os.environ | {
            "DATABASE_URL": self.consumer_url,
            "ONCEBOX_DATABASE": self.database_url,
            "ONCEBOX_LISTEN": f"127.0.0.1:{self.port}",
            "ONCEBOX_ADMIN_LISTEN": f"127.0.0.1:{self.admin_port}",
            "ONCEBOX_LOG": "error",
            "ONCEBOX_TO": f"http://127.0.0.1:{self.port}",
            "WEBHOOK_SECRET": self.secret,
        }
        self.server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Gateway":
        with psycopg.connect(self.admin, autocommit=True) as connection:
            connection.execute(f"create database {self.name} template template0")
        if self.schema:
            with psycopg.connect(self.database_url) as connection:
                connection.execute(self.schema)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGTERM)
        with psycopg.connect(self.admin, autocommit=True) as connection:
            connection.execute(f"drop database if exists {self.name} with (force)")

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        command = [self.program, "serve", "--config", str(self.config)]
        self.server = subprocess.Popen(command, env=self.env, stdout=subprocess.DEVNULL)
        wait_until(lambda: self.answers(), "the gateway answers")

    def answers(self) -> bool:
        assert self.server and self.server.poll() is None, "the gateway ended"
        return answers_at(f"127.0.0.1:{self.port}")

    def end(self, number: signal.Signals) -> None:
        """Ends the server with a signal."""
        if self.server and self.server.poll() is None:
            self.server.send_signal(number)
            self.server.wait(PATIENCE)

    def send(self, *arguments: str) -> None:
        """Sends signed events."""
        command = [self.program, "send", "stripe", "--to", self.env["ONCEBOX_TO"], "--secret", self.secret, *arguments]
        subprocess.run(command, env=self.env, check=True, stdout=subprocess.DEVNULL)

    def send_large(self, event_type: str, count: int, size: int) -> None:
        """Sends signed events with bodies of so many bytes."""
        for number in range(count):
            body = b'{"id":"evt_large_%s_%d","type":"%s","pad":"' % (event_type.encode(), number, event_type.encode())
            body += b"x" * (size - len(body) - 2) + b'"}'
            now = str(int(time.time())).encode()
            signature = hmac.new(self.secret.encode(), now + b"." + body, "sha256").hexdigest()
            headers = {"stripe-signature": f"t={now.decode()},v1={signature}", "content-type": "application/json"}
            with urlopen(Request(self.env["ONCEBOX_TO"] + "/in/stripe", body, headers), timeout=PATIENCE) as answer:
                assert answer.status == 200


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_until(holds: object, what: str, patience: float = PATIENCE) -> None:
    assert callable(holds)
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, f"waited too long until {what}"
        time.sleep(0.05)


if __name__ == "__main__":
    config, *command = sys.argv[1:]
    tables = ""
    large = ""
    if command[0] == "--large":
        large, command = command[1], command[2:]
    if command[0] == "--schema":
        tables, command = Path(command[1]).read_text(), command[2:]
    with Gateway(Path(config), tables) as gateway:
        if large:
            gateway.send_large(f"{large}.made", 24, LARGE)
        status = subprocess.run(command, env=gateway.env).returncode
    sys.exit(status)
