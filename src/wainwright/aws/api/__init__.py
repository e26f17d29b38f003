"""Calls to AWS: the seam, the services over it, and what every call goes through."""
