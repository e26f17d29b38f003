"""Conversion of legacy kinds to v1, with a note for everything that changes or is lost."""
