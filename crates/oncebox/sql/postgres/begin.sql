-- Whatever the database's default is: with a stricter level a duplicate that another node stores at this moment would be an
-- error in place of an answer. What only reads by default stays so, because it is how a server is fenced off.
BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL oncebox.begun = 'yes'
