"""AWS: the EC2 cloud provider, over a narrow seam to the real API or the emulator."""
