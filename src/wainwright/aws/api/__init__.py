"""Calls to AWS: the seam, the services that use it, and the middleware of every call."""
