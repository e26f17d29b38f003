"""The wire: what Kubernetes sends and stores, and the rules it is held to."""
