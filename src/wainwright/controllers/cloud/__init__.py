"""What is looked after in the cloud: instances, their reservations, and interruptions."""
