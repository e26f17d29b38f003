"""What the wire types share: the base struct, metadata, conditions, quantities as written."""

from typing import Annotated, Any, Final

import msgspec

from wainwright.api.schema import wire


class Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a manifest. Fields are spelt as on the wire; what is absent is left out again."""


DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_NAME: Final = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
LABEL_KEY: Final = rf"^({DNS_NAME}(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
LABEL_VALUE: Final = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
NUMBER: Final = "([0-9]+([.][0-9]*)?|[.][0-9]+)"
AMOUNT: Final = f"{NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?{NUMBER})?"
QUANTITY: Final = f"^[+-]?{AMOUNT}$"
POSITIVE_QUANTITY: Final = f"^[+]?{AMOUNT}$"

A_LABEL_KEY: Final = "a label key such as team or example.com/team"
A_LABEL_VALUE: Final = (
    "a label value: at most 63 letters, digits, '-', '_' or '.', a letter or digit at both ends"
)
A_QUANTITY: Final = "a quantity such as 2, 500m or 4Gi"

Quantities = dict[str, Annotated[int | str, wire(pattern=QUANTITY, says=A_QUANTITY)]]
PositiveQuantities = dict[
    str,
    Annotated[
        int | str,
        wire(pattern=POSITIVE_QUANTITY, says=f"{A_QUANTITY}, not negative", minimum=0),
    ],
]
LabelValue = Annotated[str, wire(max_length=63, pattern=LABEL_VALUE, says=A_LABEL_VALUE)]


class OwnerReference(Wire, frozen=True, kw_only=True):
    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None


class Metadata(Wire, frozen=True, kw_only=True):
    """What every object carries; only the fields that somebody here looks at."""

    name: str = ""
    generateName: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None
    deletionGracePeriodSeconds: int | None = None
    ownerReferences: list[OwnerReference] | None = None
    finalizers: list[str] | None = None
    generation: int | None = None
    resourceVersion: str = ""


Timestamp = Annotated[str, wire(format="date-time")]


class Condition(Wire, frozen=True, kw_only=True):
    """One aspect of an object's state, as Kubernetes writes it."""

    type: Annotated[str, wire("Which aspect.", max_length=316)]
    status: Annotated[str, wire("True, False or Unknown.", enum=["True", "False", "Unknown"])]
    lastTransitionTime: Annotated[Timestamp, wire("When the status last changed.")]
    reason: Annotated[str, wire("Why, in one word.", max_length=1024)] = ""
    message: Annotated[str, wire("Why, in a sentence.", max_length=32768)] = ""
    observedGeneration: Annotated[
        int | None, wire("The generation this was said of.", minimum=0, format="int64")
    ] = None


Conditions = Annotated[
    list[Condition],
    wire("What is known of this object's state.", list_type="map", list_map_keys=["type"]),
]


def plain(value: msgspec.Struct) -> dict[str, Any]:
    """The object as JSON would have it, kind first, defaults left out."""
    made: dict[str, Any] = msgspec.to_builtins(value)
    head = {key: getattr(value, key) for key in ("apiVersion", "kind") if getattr(value, key, None)}
    return {**head, **{key: item for key, item in made.items() if key not in head}}
