"""The orders service: books a paid invoice, adds it to the customer's balance and queues the receipt, all or nothing."""

import os
from datetime import timedelta

import oncebox
import psycopg


def book(tx: psycopg.Connection, delivery: oncebox.Delivery) -> None:
    invoice = delivery.json()["data"]["object"]
    customer, amount = invoice["customer"], invoice["amount_paid"]
    if amount <= 0:
        raise oncebox.Reject("a paid invoice has an amount")
    tx.execute("insert into orders values (%s, %s, %s)", (invoice["id"], customer, amount))
    # Adding is what a second run would spoil; here it cannot happen.
    tx.execute(
        "insert into balances values (%s, %s) on conflict (customer) do update set paid = balances.paid + excluded.paid",
        (customer, amount),
    )
    oncebox.send(tx, "mail", {"to": customer, "invoice": invoice["id"]}, delivery=delivery, step="receipt")


if __name__ == "__main__":
    # What a killed service had claimed is taken over by the others after ten seconds.
    consumer = oncebox.Consumer(os.environ["DATABASE_URL"], "orders", book, lease=timedelta(seconds=10))
    consumer.stop_on_signals().run()
