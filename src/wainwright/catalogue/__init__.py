"""What can be launched, where, at what price, and how much of it a pod gets."""
