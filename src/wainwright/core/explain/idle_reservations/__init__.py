"""Idle reservations: capacity that a plan leaves unused, and why no pod uses it."""
