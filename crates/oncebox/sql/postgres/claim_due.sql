-- The oldest due, past whatever others have locked.
-- Within an order key only the oldest runs: none while another is claimed, or an earlier one may still run. One that
-- waits for its prerequisite is not in the way: what it waits for may have the same key.
-- The care is which of them, by the attempts that were lost with their worker.
SELECT d.ctid AS place FROM oncebox.deliveries d
WHERE d.handler = h.handler AND d.state = 'ready' AND d.due_at_ms <= h.steady
  AND {lost}
  AND (d.order_key IS NULL OR (
      NOT EXISTS (SELECT 1 FROM oncebox.deliveries o
                  WHERE o.handler = d.handler AND o.order_key = d.order_key AND o.state = 'claimed')
      AND NOT EXISTS (SELECT 1 FROM oncebox.deliveries o
                      WHERE o.handler = d.handler AND o.order_key = d.order_key AND o.key < d.key
                        AND o.state IN ('ready', 'claimed', 'dead', 'held')
                        AND CASE o.state WHEN 'ready' THEN o.waits_for IS NULL ELSE h.on_dead = 'block' END)))
ORDER BY d.due_at_ms LIMIT h.most FOR UPDATE SKIP LOCKED
