"""Random input for every command, and random calls to the emulator: `make fuzz SECONDS=60`."""
