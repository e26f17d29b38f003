"""`wain run`: all controllers as one process on a real cluster."""
