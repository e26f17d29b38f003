"""Launch templates: what an instance is made of, written down once and launched from many times."""
