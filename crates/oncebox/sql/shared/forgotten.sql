SELECT coalesce(CAST(sum(acted) AS bigint), 0) FROM oncebox.actions WHERE kind = 'forget'
