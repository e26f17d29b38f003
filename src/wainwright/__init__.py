"""Wainwright: which nodes do these pods lack, what would they cost, and why not."""

__version__ = "0.1.0"
