"""User data: what a node boots with, by family of images."""
