-- $2 is no bytes at all.
UPDATE oncebox.outbox_contents SET body = $2, headers = '{}', path = '' WHERE key = $1
