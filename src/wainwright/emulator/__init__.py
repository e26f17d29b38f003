"""An EC2, and the few calls of other services that it needs, in memory and on a virtual clock."""
