"""Requests in the audit log of an API server, and the rights of RBAC rules that allow them."""

import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

Manifest = dict[str, Any]
EVERYWHERE = ""


class Right(NamedTuple):
    """One verb on one resource."""

    namespace: str
    """Empty: of a ClusterRole."""
    resource: str
    """pods/eviction, nodepools.karpenter.sh/status."""
    verb: str
    name: str = ""
    """Empty: of any name."""

    def allows(self, request: "Request") -> bool:
        return (
            self.namespace in (EVERYWHERE, request.namespace)
            and (self.resource, self.verb) == (request.resource, request.verb)
            and self.name in ("", request.name)
        )


class Request(NamedTuple):
    namespace: str
    resource: str
    verb: str
    name: str
    code: int
    grace_period: int | None
    """Of a deletion that states one."""


def rights_of(manifests: Iterable[Manifest]) -> list[Right]:
    """All rights of the roles, each by itself, as often as it is given."""
    return [right_of(role, rule) for role in roles_of(manifests) for rule in single_rules(role)]


def roles_of(manifests: Iterable[Manifest]) -> list[Manifest]:
    return [each for each in manifests if each["kind"] in ("Role", "ClusterRole")]


def single_rules(role: Manifest) -> Iterator[Manifest]:
    """The same as the rules of the role, each of which allows one verb on one resource."""
    for rule in role["rules"]:
        fields = [[(field, value) for value in values] for field, values in rule.items()]
        for choice in itertools.product(*fields):
            yield {field: [value] for field, value in choice}


def right_of(role: Manifest, single_rule: Manifest) -> Right:
    [group], [plural], [verb] = (
        single_rule[field] for field in ("apiGroups", "resources", "verbs")
    )
    [name] = single_rule.get("resourceNames", [""])
    namespace = role["metadata"].get("namespace", EVERYWHERE)
    return Right(namespace, _resource(group, plural), verb, name)


def requests_of(log: Path, user: str) -> Iterator[Request]:
    """What the user has asked of resources; the server's version and the like need no right."""
    for line in log.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["user"]["username"] == user and "objectRef" in entry:
            yield _request(entry)


def _request(entry: Manifest) -> Request:
    about = entry["objectRef"]
    resource = _resource(about.get("apiGroup", ""), about["resource"])
    subresource = about.get("subresource")
    body = entry.get("requestObject") or {}
    return Request(
        namespace=about.get("namespace", ""),
        resource=f"{resource}/{subresource}" if subresource else resource,
        verb=entry["verb"],
        name=about.get("name", ""),
        code=entry.get("responseStatus", {}).get("code", 0),
        grace_period=body.get("gracePeriodSeconds"),
    )


def _resource(group: str, plural: str) -> str:
    base, _, subresource = plural.partition("/")
    qualified = f"{base}.{group}" if group else base
    return f"{qualified}/{subresource}" if subresource else qualified
