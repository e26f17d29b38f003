"""Idleness: slots of reservations that a plan leaves unused, and what kept pods off them."""
