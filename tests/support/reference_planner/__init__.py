"""The planner's rules as plain loops: slow, and written from the documents alone."""
