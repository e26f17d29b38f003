"""One pod of a plan: where it goes and what decided, or why it goes nowhere."""

from typing import Any

from wainwright.api.fault import did_you_mean
from wainwright.errors import Usage
from wainwright.report.grouped import nodes_said
from wainwright.report.money import hourly

Document = dict[str, Any]

STEPS = {
    "types": "types in the catalogue",
    "requirements": "after requirements",
    "resources": "after resources",
    "offerings": "after offerings",
    "minValues": "after minValues",
    "limits": "after limits",
}


def lines(plan: Document, name: str) -> list[str]:
    """The story of the pod; an unknown name is a usage error with a suggestion."""
    pod = named(plan, name)
    for claim in plan["nodeClaims"]:
        if pod in claim["pods"]:
            return _claimed(pod, claim)
    for node in plan["existingNodes"]:
        if pod in node["pods"]:
            return [f"{pod} goes to {node['name']}, which is there already and has room"]
    return _without_place(next(row for row in plan["unschedulable"] if row["pod"] == pod))


def has_place(plan: Document, name: str) -> bool:
    return named(plan, name) not in {row["pod"] for row in plan["unschedulable"]}


def named(plan: Document, name: str) -> str:
    """namespace/name of the pod that is meant; the namespace may be left out where it is clear."""
    homes = [*plan["nodeClaims"], *plan["existingNodes"]]
    known: list[str] = [pod for home in homes for pod in home["pods"]]
    known += [row["pod"] for row in plan["unschedulable"]]
    found = [pod for pod in known if name in (pod, pod.partition("/")[2])]
    if len(found) == 1:
        return found[0]
    if found:
        raise Usage(f"several pods are called {name}", f"write one of {', '.join(sorted(found))}")
    raise Usage(f"the plan has no pod {name}", did_you_mean(name, known))


def _others(count: int) -> str:
    return "another pod" if count == 1 else f"{count:,} other pods"


def _claimed(pod: str, claim: Document) -> list[str]:
    beside = len(claim["pods"]) - 1
    others = f", beside {_others(beside)}" if beside else ", alone"
    reserved = f" from {claim['reservationID']}" if claim["reservationID"] else ""
    zone = claim["zone"] or "any zone"
    return [
        f"{pod} goes to {claim['name']}, a new node of {claim['nodePool']}{others}",
        f"  bought as {claim['instanceType']} in {zone}, {claim['capacityType']}{reserved}, "
        f"{hourly(claim['pricePerHour'])}",
        *(f"  {line}" for line in _decided(claim)),
    ]


def _decided(claim: Document) -> list[str]:
    types = claim["options"]["instanceTypes"]
    told = [
        "no node of the input had room for it",
        f"{claim['nodePool']} is the first pool, by weight, that could serve it",
        f"{len(types):,} instance types were left that hold all its pods; "
        f"{WHY[claim['capacityType']]}",
    ]
    if claim["round"] > 1:
        told.append(f"it had to wait for round {claim['round']}: what it needed was held before")
    told.extend(f"given up: {what}" for what in claim["relaxed"])
    return told


WHY = {
    "reserved": "reserved capacity comes first, and of it the cheapest type",
    "spot": "no reserved slot was left for it; the cheapest spot offering is taken",
    "on-demand": "neither reserved nor spot was left for it; the cheapest offering is taken",
}


def _without_place(row: Document) -> list[str]:
    told = [f"{row['pod']} has no place: {row['reason']}"]
    for pool in row["pools"]:
        told.append(f"  {pool['nodePool']}: {pool['reason']}")
        told.extend(f"    {pool['funnel'][step]:>6,} {words}" for step, words in STEPS.items())
    told.extend(f"  {nodes_said(each)}" for each in row["nodes"])
    if row["suggestion"]:
        told.append(f"  try: {row['suggestion']}")
    return told
