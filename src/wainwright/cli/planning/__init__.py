"""What the commands that plan share: their road from flags to a plan, and its table."""
