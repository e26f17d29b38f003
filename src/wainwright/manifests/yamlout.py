"""Values as YAML that means the same to every reader.

PyYAML leaves `1e3`, `0o17` and `y` unquoted when they are text; kubectl would read them as numbers
and truth values. Here a text is quoted whenever Kubernetes would read something else.
"""

from typing import Any

import yaml

from wainwright.manifests.scalars import NotJSON, plain


class _Dumper(yaml.SafeDumper):
    """Plain YAML: no anchors, no tags, keys in the order given."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else "'" if _reads_otherwise(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _reads_otherwise(value: str) -> bool:
    try:
        return plain(value) != value
    except NotJSON:
        return True


_Dumper.add_representer(str, _text)


def dump(*documents: Any) -> str:
    """The documents as one YAML stream."""
    texts = (
        yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
        for document in documents
    )
    return "---\n".join(texts)
