"""What a client must know of an account: its names and ids, and how to be pointed at it."""

import msgspec

from wainwright.emulator.cloud import EmulatedCloud


class Announcement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of JSON."""

    endpoint: str
    region: str
    account: str
    cluster: str
    queue: str
    queue_url: str = msgspec.field(name="queueURL")
    discovery: dict[str, str]
    """The tag by which subnets, security group and so on are found."""
    role: str
    vpc: str
    subnets: dict[str, str]
    """Zone to subnet."""
    security_group: str
    environment: dict[str, str]
    """For a client: set these, and it comes here."""


def announcement(cloud: EmulatedCloud, endpoint: str) -> Announcement:
    fields = msgspec.structs.asdict(cloud.account)
    return Announcement(
        **fields, endpoint=endpoint, environment=environment(endpoint, cloud.account.region)
    )


def environment(endpoint: str, region: str) -> dict[str, str]:
    """Any keys will do; without them most clients look for an account on the network."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": "wain",
        "AWS_SECRET_ACCESS_KEY": "wain",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
