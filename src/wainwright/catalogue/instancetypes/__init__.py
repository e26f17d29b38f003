"""Instance types as nodes of a class have them: labels, capacity, overhead, max pods."""
