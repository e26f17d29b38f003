"""Patterns: names with `*` for any text, as Clouds and command lines write them."""

import re
from functools import lru_cache


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def matches(pattern: str, name: str) -> bool:
    return _compiled(pattern).fullmatch(name) is not None
