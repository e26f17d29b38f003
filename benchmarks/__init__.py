"""Benchmarks of time and memory: figures with their targets; they never fail a build."""
