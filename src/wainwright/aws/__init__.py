"""AWS: the cloud provider for EC2, on a narrow seam with the real API or the emulator below it."""
