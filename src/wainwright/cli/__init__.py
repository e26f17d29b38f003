"""The commands, and the only place where the parts are put together."""
