"""API objects translated to the planner's model and back: pods, nodes, claims, pools, volumes."""
