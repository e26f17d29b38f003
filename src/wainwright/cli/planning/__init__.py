"""A plan as people and programs read it: JSON, tables, Markdown, manifests."""
