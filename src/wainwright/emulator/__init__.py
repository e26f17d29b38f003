"""An AWS account in memory, on any clock: EC2, and what nodes need of the other services."""
