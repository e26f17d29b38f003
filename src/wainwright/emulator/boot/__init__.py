"""Boot: a machine becomes a node by its own user data, or fails to, with a reason.

`booted.boot(user_data, facts)` is the way in.
"""
