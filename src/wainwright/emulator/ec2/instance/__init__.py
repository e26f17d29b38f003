"""Instances: launched, described, interrupted, terminated; quotas and launch errors."""
