"""Random clusters through Karpenter's own disruption methods and ours."""
