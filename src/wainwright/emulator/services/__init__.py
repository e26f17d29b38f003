"""The services beside EC2: EKS, IAM, Pricing, SQS, SSM and the public EKS images."""
