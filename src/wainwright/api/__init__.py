"""API types: the objects as Kubernetes stores them, their schemas and validation rules."""
