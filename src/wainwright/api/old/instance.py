"""What old classes say of the instance itself: its disks and its metadata service.

The types carry no defaults: what the author left out stays visible as left out, because the
defaults of then and now differ.
"""

from typing import Annotated, ClassVar, Final

from wainwright.api.ec2nodeclass import SWITCH, VOLUME_SIZE, VOLUME_TYPES
from wainwright.api.schema import Schema, rule, wire
from wainwright.api.wire import NUMBER, Wire

OLD_FAMILIES: Final = [
    "AL2",
    "AL2023",
    "Bottlerocket",
    "Custom",
    "Ubuntu",
    "Windows2019",
    "Windows2022",
]
AlphaSize = Annotated[
    int | str,
    wire(
        "Any quantity of bytes.",
        pattern=f"^[+]?{NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{{1,2}})?$",
        says="a size such as 100Gi",
        minimum=0,
    ),
]
BetaSize = Annotated[
    str,
    wire("1Gi to 64Ti.", pattern=VOLUME_SIZE, says="1Gi to 64Ti, as in 100Gi", max_length=10),
]
OldTags = Annotated[
    dict[str, str],
    wire(
        "Tags of everything that is launched.",
        rules=[rule("self.all(k, k != '')", "a tag needs a key")],
    ),
]


class AlphaVolume(Wire, frozen=True, kw_only=True):
    """An EBS volume of an AWSNodeTemplate."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            rule(
                "has(self.snapshotID) || has(self.volumeSize)",
                "a volume needs a volumeSize or a snapshotID",
            )
        ]
    }

    volumeSize: AlphaSize | None = None
    volumeType: Annotated[str | None, wire("The kind of volume.", enum=VOLUME_TYPES)] = None
    snapshotID: Annotated[str | None, wire("The snapshot it starts from.")] = None
    encrypted: Annotated[bool | None, wire("Whether it is encrypted.")] = None
    kmsKeyID: Annotated[str | None, wire("The key it is encrypted with.")] = None
    deleteOnTermination: Annotated[bool | None, wire("Whether it goes with the instance.")] = None
    iops: Annotated[int | None, wire("Operations per second.", format="int64")] = None
    throughput: Annotated[int | None, wire("MiB per second.", format="int64")] = None


class BetaVolume(AlphaVolume, frozen=True, kw_only=True):
    """An EBS volume of an EC2NodeClass: the size is text in the units that people write."""

    volumeSize: BetaSize | None = None


class AlphaBlockDevice(Wire, frozen=True, kw_only=True):
    """A disk of the node."""

    deviceName: Annotated[str | None, wire("Where it is attached, as /dev/xvda.")] = None
    ebs: AlphaVolume | None = None


class BetaBlockDevice(Wire, frozen=True, kw_only=True):
    """A disk of the node, perhaps the one that ephemeral storage lies on."""

    deviceName: Annotated[str | None, wire("Where it is attached, as /dev/xvda.")] = None
    ebs: BetaVolume | None = None
    rootVolume: Annotated[
        bool | None, wire("Whether pods' ephemeral storage lies on this disk.")
    ] = None


class OldMetadataOptions(Wire, frozen=True, kw_only=True):
    """How the instance metadata service is reached."""

    httpEndpoint: Annotated[str | None, wire("Whether it answers.", enum=SWITCH)] = None
    httpProtocolIPv6: Annotated[str | None, wire("Whether it answers over IPv6.", enum=SWITCH)] = (
        None
    )
    httpPutResponseHopLimit: Annotated[
        int | None, wire("How far its answers travel.", minimum=1, maximum=64, format="int64")
    ] = None
    httpTokens: Annotated[
        str | None, wire("Whether a session token is needed.", enum=["optional", "required"])
    ] = None
