"""Launches: from a claim to CreateFleet and back, and the recovery of lost responses."""
