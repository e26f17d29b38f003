"""The values that decisions are made of."""
