"""A plan as people and programs read it: JSON, rows, Markdown, differences, one pod explained."""
