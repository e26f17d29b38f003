"""The planner's rules as plain loops: slow, and written from the documentation alone."""
