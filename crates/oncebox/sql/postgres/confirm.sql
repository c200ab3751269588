SELECT oncebox.confirm()
