"""A cluster in memory, for the controllers on virtual time."""
