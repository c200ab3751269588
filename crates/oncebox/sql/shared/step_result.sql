SELECT result FROM oncebox.steps WHERE delivery = $1 AND step = $2
