RELEASE oncebox
