"""Decisions, pure: a snapshot in, a plan out."""
