"""Short forms: what people write on a napkin, spelt out as an API server wants it.

Offline commands take them with a note; `wain validate` names the long form as an error.
"""

from typing import Any, Final

import msgspec

from wainwright.api.fault import Fault, Path

Value = dict[str, Any]

REQUIREMENTS: Final = ("spec", "template", "spec", "requirements")
CLASS_REF: Final = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass"}
DEFAULT_CLASS: Final = "default"
ANY_TERM: Final = [{"tags": {"karpenter.sh/discovery": "*"}}]


class Spelt(msgspec.Struct, frozen=True):
    """An object in its long form, what was filled in, and where a moved part came from."""

    value: Value
    notes: list[Fault]
    moved: dict[Path, Path]


def spelt_out(value: Value, only_class: str | None) -> Spelt:
    """The long form of an object; the one given is left as it is."""
    spec = value.get("spec")
    if isinstance(spec, dict) and value.get("kind") == "NodePool":
        return _pool(value, spec, only_class)
    if isinstance(spec, dict) and value.get("kind") == "EC2NodeClass":
        return _class(value, spec)
    return Spelt(value, [], {})


def _pool(value: Value, spec: Value, only_class: str | None) -> Spelt:
    notes: list[Fault] = []
    moved: dict[Path, Path] = {}
    template = dict(spec.get("template") or {})
    inner = dict(template.get("spec") or {})
    rest = dict(spec)
    if "requirements" in spec and "requirements" not in inner:
        inner["requirements"] = rest.pop("requirements")
        moved[REQUIREMENTS] = ("spec", "requirements")
        notes.append(_note(("spec", "requirements"), "read as spec.template.spec.requirements"))
    if not inner.get("nodeClassRef"):
        name = only_class or DEFAULT_CLASS
        inner["nodeClassRef"] = {**CLASS_REF, "name": name}
        notes.append(_note(("spec",), f"no nodeClassRef: the class {name} is used"))
    inner.setdefault("requirements", [])
    return Spelt({**value, "spec": {**rest, "template": {**template, "spec": inner}}}, notes, moved)


def _class(value: Value, spec: Value) -> Spelt:
    filled: Value = {name: ANY_TERM for name in TERMS if name not in spec}
    if "amiSelectorTerms" not in spec:
        filled["amiSelectorTerms"] = [{"alias": _alias(spec.get("amiFamily"))}]
    made: Value = {**spec, **filled}
    if "role" not in spec and "instanceProfile" not in spec:
        made["role"] = filled["role"] = DEFAULT_CLASS
    notes = [_note(("spec",), f"left out and filled in: {', '.join(sorted(filled))}")]
    return Spelt({**value, "spec": made}, notes if filled else [], {})


TERMS: Final = ("subnetSelectorTerms", "securityGroupSelectorTerms")


def _alias(family: Any) -> str:
    known = isinstance(family, str) and family != "Custom"
    return f"{family.lower() if known else 'al2023'}@latest"


def _note(path: Path, message: str) -> Fault:
    return Fault(path=path, message=f"short form: {message}", warning=True)


def original(path: Path, moved: dict[Path, Path]) -> Path:
    """Where a part of the long form stands in what the user wrote."""
    for long, short in moved.items():
        if path[: len(long)] == long:
            return (*short, *path[len(long) :])
    return path
