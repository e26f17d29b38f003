"""Kubernetes' own kinds: structs of what scheduling looks at, and checks without a cluster."""
