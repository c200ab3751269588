-- What a process has begun, from a record outside the database. What it has not announced stays as it is.
UPDATE oncebox.nodes SET begun_alone = coalesce($2, begun_alone),
                         begun_together = coalesce($3, begun_together),
                         begun_relay = coalesce($4, begun_relay)
WHERE node = $1
