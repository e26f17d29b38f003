"""What a kube-scheduler does with a plan: its filters, and binding pod by pod."""
