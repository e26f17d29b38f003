"""EC2, one subject a file."""
