"""The services beside EC2, as far as a node needs them."""
