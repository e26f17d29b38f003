"""Launch templates: their content, their creation and deletion, and how launches split by them."""
