"""Makes the committed table of the core kinds' fields from the API description of Kubernetes.

`make_field_types.py` writes fields.json beside the structs of the core kinds;
`make_field_types.py --check` says whether it is what would be written. The description is a file
inside the published Go module, so Go is needed to fetch it. Only names and types are taken over.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from wainwright.api.kubernetes import field_types
from wainwright.api.kubernetes.object_reader import KUBERNETES_KINDS

Json = dict[str, Any]

MODULE = "k8s.io/kubernetes@v1.36.3"
TARGET = Path(field_types.__file__).parent / "fields.json"
NO_GO = f"to make {TARGET.name}, install Go 1.24 or newer: the fields are read out of {MODULE}"
NO_MODULE = f"to make {TARGET.name}, {MODULE} is needed, and Go could not download it"
PREFIXES = ("io.k8s.api.", "io.k8s.apimachinery.pkg.apis.")
SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intOrString",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
}
PLAIN = {
    ("string", ""): "string",
    ("boolean", ""): "boolean",
    ("integer", "int32"): "int32",
    ("integer", "int64"): "int64",
}


def main(arguments: list[str]) -> int:
    folder = fetch_module()
    if folder is None:
        print(NO_MODULE if shutil.which("go") else NO_GO, file=sys.stderr)
        return 2
    content = generate_table(definitions(folder))
    if "--check" not in arguments:
        TARGET.write_bytes(content)
    elif not TARGET.exists() or TARGET.read_bytes() != content:
        print(f"not what {Path(__file__).name} makes of {MODULE}: {TARGET.name}", file=sys.stderr)
        return 1
    return 0


def fetch_module() -> Path | None:
    """The folder that holds the module's files, after downloading them where they are not yet."""
    go = shutil.which("go")
    if go is None:
        return None
    command = [go, "mod", "download", "-json", MODULE]
    environment = {**os.environ, "GOTOOLCHAIN": "auto"}
    reply = subprocess.run(command, check=False, stdout=subprocess.PIPE, env=environment)
    return Path(json.loads(reply.stdout)["Dir"]) if reply.returncode == 0 else None


def definitions(folder: Path) -> Json:
    text = (folder / "api" / "openapi-spec" / "swagger.json").read_bytes()
    found: Json = json.loads(text)["definitions"]
    return found


def generate_table(described: Json) -> bytes:
    """The content of the table: each kind's type, and each type's fields."""
    roots = {key: root(described, *key) for key in KUBERNETES_KINDS}
    types = {short(name): fields(described[name]) for name in reachable(described, roots.values())}
    kinds = {" ".join(key): short(name) for key, name in roots.items()}
    table = {"source": MODULE, "kinds": kinds, "types": types}
    return json.dumps(table, indent=0, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def root(described: Json, api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    wanted = {"group": group, "version": version, "kind": kind}
    marked = "x-kubernetes-group-version-kind"
    found = [name for name, one in described.items() if wanted in one.get(marked, ())]
    if len(found) != 1:
        raise LookupError(f"{kind} of {api_version} has the definitions {found}")
    return found[0]


def reachable(described: Json, roots: Any) -> list[str]:
    """Every definition with fields that an object can contain, the roots among them."""
    seen: set[str] = set()
    ahead = list(roots)
    while ahead:
        name = ahead.pop()
        if name not in seen and name not in SCALARS:
            seen.add(name)
            ahead.extend(references(described[name]))
    return sorted(seen)


def references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [name for item in value for name in references(item)]
    if not isinstance(value, dict):
        return []
    own = [target(value)] if "$ref" in value else []
    return own + [name for item in value.values() for name in references(item)]


def target(reference: Json) -> str:
    return str(reference["$ref"]).removeprefix("#/definitions/")


def fields(definition: Json) -> dict[str, str]:
    return {name: type_of(one) for name, one in definition["properties"].items()}


def type_of(described: Json) -> str:
    """string, int32, quantity, …; []X for a list, {}X for a map; else the name of a type."""
    if "$ref" in described:
        name = target(described)
        return SCALARS.get(name) or short(name)
    if described["type"] == "array":
        return "[]" + type_of(described["items"])
    if described["type"] == "object":
        return "{}" + type_of(described["additionalProperties"])
    return PLAIN[described["type"], described.get("format", "")]


def short(name: str) -> str:
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
