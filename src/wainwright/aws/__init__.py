"""The EC2 provider: what the planner decided, launched; the only way to AWS is the seam."""
