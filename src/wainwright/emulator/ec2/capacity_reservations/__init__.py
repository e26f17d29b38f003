"""Capacity reservations and capacity blocks: the API, and who runs in them."""
