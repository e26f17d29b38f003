"""Files in, values out: reading with line numbers, validating, converting."""
