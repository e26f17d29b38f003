"""How a Scenario is written: its fields, events, expectations and traces, with their mistakes."""
