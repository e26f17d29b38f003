"""The catalogue: instance types that a node class can launch, their capacity, offerings, prices."""
