"""Instance types: what the account offers, at which prices, and what is unavailable."""
