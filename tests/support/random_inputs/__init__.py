"""Random small inputs of the planner, and shrinking of failing ones."""
