"""EC2NodeClasses: the resources that they select, their conditions, and their validation."""
