"""The only package that speaks HTTP to a Kubernetes API server."""
