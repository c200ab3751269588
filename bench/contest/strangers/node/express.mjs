// A webhook receiver on Express: signature, id, one INSERT.

import express from "express";
import { store } from "./inbox.mjs";
import { isSigned } from "./stripe.mjs";

const app = express();

app.post("/in/stripe", express.raw({ type: "application/json", limit: "1mb" }), async (request, response) => {
  if (!isSigned(request.get("stripe-signature"), request.body)) return response.sendStatus(401);
  const text = request.body.toString("utf8");
  const isNew = await store(JSON.parse(text), text);
  response.json({ status: isNew ? "accepted" : "duplicate" });
});

app.listen(Number(process.env.PORT), "127.0.0.1");
