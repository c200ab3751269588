"""Senders that behave as providers do: they come again until they are answered 2xx, and send some events twice."""

import hashlib
import hmac
import http.client
import json
import random
import threading
import time

SECRET = "the-secret-of-the-failover-test"
SENDERS = 4


class Load:
    def __init__(self, port, first):
        self.port, self.next, self.lock = port, first, threading.Lock()
        self.acknowledged = {}
        # The moment of each 2xx, to tell how soon they came back.
        self.moments = []
        self.answers = {}
        self.running = False
        self.threads = []

    def start(self):
        self.running = True
        self.threads = [threading.Thread(target=self.send, args=(seed,), daemon=True) for seed in range(SENDERS)]
        for thread in self.threads:
            thread.start()

    def finish(self):
        """Takes no new events; what is open is sent until it is answered."""
        self.running = False
        for thread in self.threads:
            thread.join(120)
            assert not thread.is_alive(), "a sender is not answered"

    def send(self, seed):
        chance = random.Random(seed)
        while self.running:
            with self.lock:
                number, self.next = self.next, self.next + 1
            self.until_stored(number)
            # The faults are under test, not the rate.
            time.sleep(0.01)
            if chance.random() < 0.2:
                with self.lock:
                    known = len(self.acknowledged)
                self.until_stored(number - chance.randrange(min(known, 20) or 1), again=True)

    def until_stored(self, number, again=False):
        if again and number not in self.acknowledged:
            return
        body = json.dumps({"id": f"evt_{number}", "type": "load"}).encode()
        while True:
            status = self.post(body)
            with self.lock:
                self.answers[status] = self.answers.get(status, 0) + 1
            if status == 200:
                with self.lock:
                    self.acknowledged.setdefault(number, time.monotonic())
                    self.moments.append(time.monotonic())
                return
            time.sleep(0.1)

    def post(self, body):
        signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", "/in/load", body, {"x-signature": signature, "content-type": "application/json"})
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def first_after(self, moment):
        with self.lock:
            later = [one for one in self.moments if one >= moment]
        return min(later) - moment if later else None
