"""Nodes that are empty, drifted or too expensive: found, and removed or replaced."""
