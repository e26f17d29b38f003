"""Kubernetes' own kinds: structs of the fields that scheduling uses, and offline validation."""
