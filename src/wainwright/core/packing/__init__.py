"""Packing by cost: pods put together so that the machines for them cost less."""
