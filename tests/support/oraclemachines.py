"""Claims come true: how they are bought, and the node that a claim becomes."""

from collections.abc import Mapping
from typing import Any

from tests.support.oracle import Claim
from tests.support.oraclecatalogue import Manifest

from wainwright.core.launch import Buy
from wainwright.model.labels import HOSTNAME, INSTANCE_TYPE, REGISTERED, RESERVATION_ID
from wainwright.model.plan import Choices, Launch, PlannedClaim
from wainwright.model.requirements import Entry, Requirements


def node_of(claim: Manifest) -> Manifest:
    """The node of a claim, when it has joined and is not ready yet."""
    name, spec, status = claim["metadata"]["name"], claim["spec"], claim["status"]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": claim["metadata"]["labels"] | {HOSTNAME: name, REGISTERED: "true"},
        },
        "spec": {
            "providerID": status["providerID"],
            "taints": [*spec.get("taints", ()), *spec.get("startupTaints", ())],
        },
        "status": {key: status[key] for key in ("capacity", "allocatable")},
    }


def as_planned(claim: Claim) -> PlannedClaim:
    """The claim as ours would be written, for the launch choice to look at."""
    assert claim.nodeClaim is not None
    written = claim.nodeClaim["spec"]["requirements"]
    asked = Requirements.from_entries([_entry(each) for each in written])
    ids = tuple(sorted({each.reservationID for each in claim.offerings if each.reservationID}))
    return PlannedClaim(
        name="",
        pool=claim.nodePool,
        round=1,
        requirements=asked,
        choices=Choices(
            instance_types=claim.instanceTypes,
            zones=(),
            capacity_types=(),
            reservation_ids=ids if _is_reserved(written) else (),
        ),
        launch=Launch(instance_type="", zone=None, capacity_type="", price=0.0),
        fees=0.0,
        requests={},
        pods=claim.pods,
    )


def _entry(written: Manifest) -> Entry:
    values, least = tuple(written.get("values") or ()), written.get("minValues")
    return written["key"], written["operator"], values, least


def _is_reserved(written: list[Manifest]) -> bool:
    """Whether the claim holds reservations: only then does it name them."""
    return any(each["key"] == RESERVATION_ID and each["operator"] == "In" for each in written)


def labels_of(claim: Manifest, kind: Manifest, buy: Buy) -> dict[str, str]:
    """What the node is labelled with: its claim's, its type's and its offering's labels."""
    of_type = {
        each["key"]: each["values"][0]
        for each in kind["requirements"]
        if each["operator"] == "In" and len(each["values"]) == 1
    }
    asked = buy.offering.requirements
    bought = {key: value for key in asked if (value := asked.only(key)) is not None}
    found: dict[str, str] = claim["metadata"]["labels"] | of_type | bought
    found[INSTANCE_TYPE] = kind["name"]
    if buy.offering.reservation_id is not None:
        found[RESERVATION_ID] = buy.offering.reservation_id
    return found


def with_slot_taken(kind: Manifest, reservation: str | None) -> Manifest:
    if reservation is None:
        return kind
    offerings = [
        each | {"available": each["available"] - 1}
        if each["reservationID"] == reservation
        else each
        for each in kind["offerings"]
    ]
    return kind | {"offerings": offerings}


def bound_to(item: Manifest, homes: Mapping[str, str]) -> Manifest:
    """A pod that has found a place, running there; anything else as it is."""
    if item["kind"] != "Pod":
        return item
    home = homes.get(f"{item['metadata']['namespace']}/{item['metadata']['name']}")
    if home is None:
        return item
    spec: dict[str, Any] = item["spec"] | {"nodeName": home}
    return item | {"spec": spec, "status": {"phase": "Running"}}
