SELECT mark FROM oncebox.remembered WHERE mark = $1
