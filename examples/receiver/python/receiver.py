"""A receiver that has each effect once: the key and the effect are one transaction.

Usage: RECEIVER_SECRET=whsec_… receiver.py PORT DATABASE

The secret is the destination's: without it anybody who reaches the port could have effects.
"""

import base64
import hashlib
import hmac
import json
import os
import sqlite3
import sys
import time
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

port, database = int(sys.argv[1]), sys.argv[2]
db = sqlite3.connect(database, check_same_thread=False)
db.execute("CREATE TABLE IF NOT EXISTS effects (key TEXT PRIMARY KEY, body TEXT NOT NULL)")
lock, calls = Lock(), 0
signing_key = base64.b64decode(os.environ["RECEIVER_SECRET"].removeprefix("whsec_"))


def is_genuine(headers: Message, body: bytes) -> bool:
    """Standard Webhooks: id, time and body under our key, and not older than five minutes."""
    id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent_at.isdigit() or abs(time.time() - int(sent_at)) > 300:
        return False
    signed = hmac.new(signing_key, f"{id}.{sent_at}.".encode() + body, hashlib.sha256).digest()
    expected = "v1," + base64.b64encode(signed).decode()
    return any(hmac.compare_digest(expected, given) for given in headers.get("webhook-signature", "").split())


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        global calls
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not is_genuine(self.headers, raw):
            return self.answer(401, {"error": "not signed with our secret"})
        body = raw.decode()
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
