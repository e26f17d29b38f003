"""How fast, and how much memory: figures beside their targets, never a failing build."""
