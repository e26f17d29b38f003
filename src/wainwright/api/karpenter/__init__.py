"""Karpenter's kinds of v1: NodePool, NodeClaim, EC2NodeClass, and what they share."""
