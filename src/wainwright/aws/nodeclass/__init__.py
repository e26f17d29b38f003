"""Node classes: what the terms of an EC2NodeClass find in the account, and whether it will do."""
