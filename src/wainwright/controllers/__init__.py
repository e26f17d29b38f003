"""Controllers: what is there is brought to what is wanted, by one object and one concern each."""
