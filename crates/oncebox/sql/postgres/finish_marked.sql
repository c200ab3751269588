-- As finish_one, and in the marked transaction alone: work that ended it must not be marked done.
UPDATE oncebox.deliveries SET state = 'done', finished_at_ms = (SELECT oncebox.now_ms($3))
WHERE delivery = $1 AND token = $2 AND state = 'claimed' AND current_setting('oncebox.tx', true) = 'open'
