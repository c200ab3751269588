// A webhook receiver on Fastify: signature, id, one INSERT.

import Fastify from "fastify";
import { store } from "./inbox.mjs";
import { isSigned } from "./stripe.mjs";

const app = Fastify();

// The signature is over the raw bytes, so the body is parsed after it was checked.
app.addContentTypeParser("application/json", { parseAs: "buffer" }, (_request, body, done) => done(null, body));

app.post("/in/stripe", async (request, reply) => {
  if (!isSigned(request.headers["stripe-signature"], request.body)) return reply.code(401).send();
  const text = request.body.toString("utf8");
  const isNew = await store(JSON.parse(text), text);
  return { status: isNew ? "accepted" : "duplicate" };
});

await app.listen({ port: Number(process.env.PORT), host: "127.0.0.1" });
