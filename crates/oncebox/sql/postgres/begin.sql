BEGIN; SET LOCAL oncebox.begun = 'yes'
