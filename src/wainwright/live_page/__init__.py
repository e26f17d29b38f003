"""The page of a report while its story goes on: `wain serve`."""
