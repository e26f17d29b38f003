"""Kubernetes' own kinds: structs of what scheduling looks at, and checks without a cluster."""

from wainwright.api.builtin.reader import Reader, check, decode
from wainwright.api.builtin.registry import KINDS

__all__ = ["KINDS", "Reader", "check", "decode"]
