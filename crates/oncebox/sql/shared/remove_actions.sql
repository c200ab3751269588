DELETE FROM oncebox.actions WHERE action IN (
    SELECT action FROM oncebox.actions WHERE finished_at_ms < $1 LIMIT $2)
