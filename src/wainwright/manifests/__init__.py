"""Manifests: reading YAML and JSON with line numbers, validating, converting legacy kinds."""
