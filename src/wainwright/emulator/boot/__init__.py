"""Node bootstrap: an instance becomes a node by its own user data, or fails to, with a reason.

Entry points: `node_boot.NodeBooter.outcome(instance)` for an instance of the account, and below it
`node_boot.boot_from_user_data(user_data, facts)`."""
