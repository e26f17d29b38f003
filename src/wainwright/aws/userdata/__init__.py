"""User data: what a machine reads at its first boot, for every family of images."""
