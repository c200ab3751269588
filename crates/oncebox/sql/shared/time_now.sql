SELECT oncebox.now_ms($1)
