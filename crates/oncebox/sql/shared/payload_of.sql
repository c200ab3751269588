SELECT remote, headers, body FROM oncebox.payloads WHERE key = $1
