"""Node classes and overrides: what users declare, and its status."""
