ROLLBACK TO oncebox
