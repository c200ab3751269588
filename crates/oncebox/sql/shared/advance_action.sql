UPDATE oncebox.actions SET acted = acted + $2, phase = $3, reached = $4,
    finished_at_ms = CASE WHEN CAST($5 AS bigint) = 1 THEN (SELECT oncebox.now_ms($6)) END
WHERE action = $1
