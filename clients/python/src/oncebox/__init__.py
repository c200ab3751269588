"""Exactly-once webhooks inside your own Postgres transaction: the functions of the schema `oncebox`, typed, and a loop.

Everything takes the connection or transaction that you have: psycopg, SQLAlchemy, Django."""

from .consumer import Consumer, Reject, Retry
from .functions import AlreadyDone, Delivery, LeaseLost, NoTransaction, TransactionEnded
from .functions import claim, extend, fail, finish, give_back, newer, once, send

__all__ = ["AlreadyDone", "Consumer", "Delivery", "LeaseLost", "NoTransaction", "Reject", "Retry", "TransactionEnded"]
__all__ += ["claim", "extend", "fail", "finish", "give_back", "newer", "once", "send"]
