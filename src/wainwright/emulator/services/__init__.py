"""The services other than EC2: EKS, IAM, Pricing, SQS, SSM and the public EKS images."""
