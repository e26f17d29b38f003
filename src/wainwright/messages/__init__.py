"""Reasons, suggestions and amounts as sentences, for the terminal, for events and for JSON."""
