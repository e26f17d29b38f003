"""A kube-scheduler for plans: its filters, and binding pod by pod."""
