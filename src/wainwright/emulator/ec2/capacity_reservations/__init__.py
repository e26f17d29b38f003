"""Capacity reservations and capacity blocks: the API, and the instances in them."""
