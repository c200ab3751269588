SAVEPOINT oncebox
