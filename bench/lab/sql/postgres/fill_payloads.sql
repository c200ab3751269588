COPY oncebox.payloads (key, remote, headers, body) FROM STDIN (FORMAT binary)
