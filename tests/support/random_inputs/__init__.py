"""Random small inputs of the planner, and how to make a failing one smaller."""
