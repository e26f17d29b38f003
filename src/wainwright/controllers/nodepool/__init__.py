"""NodePools: status, hash, health, and static capacity."""
