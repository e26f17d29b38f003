"""VPCs, subnets and security groups."""
