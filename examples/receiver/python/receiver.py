"""A receiver that has each effect once: the key and the effect are one transaction.

Usage: receiver.py PORT DATABASE
"""

import json
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

port, database = int(sys.argv[1]), sys.argv[2]
db = sqlite3.connect(database, check_same_thread=False)
db.execute("CREATE TABLE IF NOT EXISTS effects (key TEXT PRIMARY KEY, body TEXT NOT NULL)")
lock, calls = Lock(), 0


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        global calls
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        key = self.headers.get("idempotency-key")
        if not key:
            return self.answer(400, {"error": "no idempotency-key"})
        with lock, db:  # `with db` commits, or rolls back on an exception
            calls += 1
            # Insert first: the unique key decides, and a row that was there means that we did this before.
            first = db.execute("INSERT INTO effects VALUES (?, ?) ON CONFLICT DO NOTHING", (key, body)).rowcount == 1
            # … your own writes, only if first, in this same transaction …
        self.answer(200, {"first": first})

    def do_GET(self) -> None:
        with lock:
            effects = db.execute("SELECT count(*) FROM effects").fetchone()[0]
        self.answer(200, {"calls": calls, "effects": effects})

    def answer(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


ThreadingHTTPServer(("127.0.0.1", port), Receiver).serve_forever()
