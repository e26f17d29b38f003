"""Offerings of instance types and their prices, from the built-in list to reservations."""
