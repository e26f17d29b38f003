"""ARNs: the long names of things, in the partition of their region."""


def partition(region: str) -> str:
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def arn(service: str, region: str, account: str, resource: str, *, everywhere: bool = False) -> str:
    """`everywhere` for services that are the same in all regions and whose ARNs name none."""
    place = "" if everywhere else region
    return f"arn:{partition(region)}:{service}:{place}:{account}:{resource}"
