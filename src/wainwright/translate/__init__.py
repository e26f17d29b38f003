"""Wire objects to the planner's model and back: pods, nodes, claims, pools, volumes, budgets."""
