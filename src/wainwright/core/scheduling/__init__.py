"""Scheduling: which pods go on which existing nodes, in-flight NodeClaims and new nodes."""
