"""NodeClaims: their creation, launch, registration, and end."""
