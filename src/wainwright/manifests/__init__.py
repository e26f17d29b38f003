"""Files in, values out: reading with line numbers, checking, converting."""
