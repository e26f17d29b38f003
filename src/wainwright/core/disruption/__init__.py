"""Disruption: which nodes may be removed or replaced, and what happens to their pods."""
