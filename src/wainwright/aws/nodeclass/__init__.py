"""EC2NodeClasses: what their selectors find in the account, and whether it can be launched from."""
