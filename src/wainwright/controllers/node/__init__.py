"""Nodes: their drain and end, and their repair."""
