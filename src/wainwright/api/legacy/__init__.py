"""Kinds of v1beta1 and before: read so that old manifests can be converted."""
