"""Launches: from a claim to CreateFleet and back, and what became of those that were lost."""
