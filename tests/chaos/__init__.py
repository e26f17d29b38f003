"""Random worlds and timelines with faults at every call, held to the laws: `make chaos`."""
