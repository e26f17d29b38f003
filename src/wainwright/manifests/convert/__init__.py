"""Legacy kinds to v1: what they become, and a note for all that does not carry over as it was."""
