"""CreateFleet of type instant: the request, the allocation strategies, the launches."""
