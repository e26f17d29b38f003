"""Launches: which offering a NodeClaim would be launched with, and which types it names."""
