SELECT brin_summarize_new_values('oncebox.ledger_by_age') + brin_summarize_new_values('oncebox.repeats_by_age')
