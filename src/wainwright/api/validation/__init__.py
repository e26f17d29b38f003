"""Offline validation of our own kinds, as an API server with our CRDs does it."""
