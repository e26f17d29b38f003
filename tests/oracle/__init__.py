"""Karpenter's own scheduler as an oracle: the Go program, random manifests, and the comparison."""
