"""Launch templates: what a machine is made of, written down once and launched from many times."""
