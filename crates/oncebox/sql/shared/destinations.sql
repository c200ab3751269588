-- Every destination that any node ever served.
SELECT destination FROM oncebox.destinations ORDER BY destination
