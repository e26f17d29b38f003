"""NodeClaims for pods that have no node, and for capacity buffers."""
