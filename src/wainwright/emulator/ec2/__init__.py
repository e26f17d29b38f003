"""The emulated EC2, by the nouns of its API."""
