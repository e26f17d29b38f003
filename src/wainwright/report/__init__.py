"""A plan for people and programs: JSON, table rows, Markdown, differences, one pod explained."""
