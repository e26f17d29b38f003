"""Why: what kept pods from a place, and what decided where they went."""
