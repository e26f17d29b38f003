"""A plan as people and programs read it: JSON, sentences, Markdown, manifests."""
