"""Where pods may go in relation to other pods: spread, affinity and anti-affinity."""
