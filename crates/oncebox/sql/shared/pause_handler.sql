UPDATE oncebox.handlers SET paused = $2 WHERE handler = $1 AND paused <> $2
