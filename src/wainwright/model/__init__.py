"""The model: the data that plans are made from and consist of, and the algebra on it."""
