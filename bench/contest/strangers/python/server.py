"""A webhook receiver on FastAPI: signature, id, one INSERT."""

import hashlib
import hmac
import json
import os
import time
from contextlib import asynccontextmanager

import asyncpg
from fastapi import FastAPI, HTTPException, Request

SECRET = os.environ["STRIPE_SECRET"].encode()
TOLERANCE_SECONDS = 300
INSERT = "insert into inbox (id, type, body) values ($1, $2, $3) on conflict (id) do nothing"


@asynccontextmanager
async def lifespan(app: FastAPI):
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=16, max_size=16) as pool:
        app.state.pool = pool
        yield


app = FastAPI(lifespan=lifespan)


def is_signed(header: str, body: bytes) -> bool:
    parts = dict(part.strip().partition("=")[::2] for part in header.split(","))
    at = parts.get("t", "")
    if not at.isdigit() or abs(time.time() - int(at)) > TOLERANCE_SECONDS:
        return False
    expected = hmac.new(SECRET, at.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, parts.get("v1", ""))


@app.post("/in/stripe")
async def receive(request: Request) -> dict[str, str]:
    body = await request.body()
    if not is_signed(request.headers.get("stripe-signature", ""), body):
        raise HTTPException(401)
    event = json.loads(body)
    said = await app.state.pool.execute(INSERT, event["id"], event["type"], body.decode())
    return {"status": "accepted" if said == "INSERT 0 1" else "duplicate"}
