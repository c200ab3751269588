UPDATE oncebox_nodes SET begun_alone = iif(?2 = 'alone', ?3, begun_alone),
                         begun_together = iif(?2 = 'together', ?3, begun_together),
                         begun_relay = iif(?2 = 'relay', ?3, begun_relay)
WHERE node = ?1
