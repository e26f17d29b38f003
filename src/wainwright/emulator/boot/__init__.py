"""Boot: a machine becomes a node by its own user data, or fails to, with a reason.

Ways in: `machine.Nursery.outcome(instance)` for a machine of the account, and below it
`booted.boot(user_data, facts)`.
"""
