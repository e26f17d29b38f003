"""Explanations: why pods are unschedulable, what would help, and why a pod is where it is."""
