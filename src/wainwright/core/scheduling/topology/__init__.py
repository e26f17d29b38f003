"""Topology spread, pod affinity and anti-affinity: where pods may go in relation to others."""
