"""Packing by cost: pods are items, instance types are bins, and the nodes cost less."""
