SELECT set_config('oncebox.tx', 'open', true)
