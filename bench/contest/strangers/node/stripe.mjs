// Stripe's signature, checked over the raw bytes.

import { createHmac, timingSafeEqual } from "node:crypto";

const SECRET = process.env.STRIPE_SECRET;
const TOLERANCE_SECONDS = 300;

export function isSigned(header, body) {
  const parts = Object.fromEntries((header ?? "").split(",").map((part) => part.trim().split("=", 2)));
  const age = Math.abs(Date.now() / 1000 - Number(parts.t));
  if (!(age <= TOLERANCE_SECONDS) || !parts.v1) return false;
  const expected = createHmac("sha256", SECRET).update(`${parts.t}.`).update(body).digest();
  const given = Buffer.from(parts.v1, "hex");
  return given.length === expected.length && timingSafeEqual(given, expected);
}
