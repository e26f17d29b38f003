"""User data: what a node boots with, by AMI family."""
