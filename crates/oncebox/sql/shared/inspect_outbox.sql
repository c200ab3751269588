-- One slice, newest first: each row with what is wrong with it, if anything.
SELECT o.id, CASE
    WHEN NOT EXISTS (SELECT 1 FROM oncebox.outbox_contents c WHERE c.id = o.id) THEN 'message without contents'
    WHEN o.state = 'claimed' AND (o.token IS NULL OR o.lease_until_ms IS NULL) THEN 'message claimed without a lease'
    WHEN o.state = 'sent' AND o.sent_at_ms IS NULL THEN 'message sent without a time'
    END
FROM (SELECT id, state, token, lease_until_ms, sent_at_ms FROM oncebox.outbox
      WHERE id < $1 ORDER BY id DESC LIMIT $2) o
ORDER BY o.id DESC
