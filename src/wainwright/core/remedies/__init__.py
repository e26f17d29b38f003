"""Remedies: changes that would give pods a place, tried before they are told."""
