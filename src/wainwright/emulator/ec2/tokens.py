"""Client tokens: a call that is repeated with the same token happens once, and answers the same."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

import msgspec

from wainwright.emulator.world import Params, World
from wainwright.errors import AwsError

KEPT_FOR: Final = 24 * 3600.0
LONGEST: Final = 64


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked with a token, and what came of it."""

    asked: str
    """A digest of the parameters."""
    answer: str
    """JSON, so that every repetition gets a copy of its own."""
    at: float


class Tokens:
    """The tokens of one operation; `kept` is part of the state of whoever asks."""

    def __init__(self, world: World, kept: dict[str, Kept]) -> None:
        self._world = world
        self._kept = kept

    def once(self, params: Params, act: Callable[[], Any]) -> Any:
        """What `act` gives, or gave when the token came first; it must be JSON.

        What went wrong is not remembered: it may be tried again with the same token.
        """
        token = params.get("ClientToken")
        if not token:
            return act()
        self._forget()
        asked, before = _digest(params), self._kept.get(token)
        if before is None:
            answer = act()
            written = msgspec.json.encode(answer).decode()
            self._kept[token] = Kept(asked=asked, answer=written, at=self._world.now())
            return answer
        if before.asked != asked:
            raise _mismatch()
        return msgspec.json.decode(before.answer)

    def _forget(self) -> None:
        """The oldest come first."""
        limit = self._world.now() - KEPT_FOR
        while self._kept:
            oldest = next(iter(self._kept))
            if self._kept[oldest].at > limit:
                return
            del self._kept[oldest]


def check(params: Params) -> None:
    """Refuses a token that is too long."""
    if len(params.get("ClientToken") or "") > LONGEST:
        raise AwsError(
            "InvalidParameterValue", f"ClientToken must not be longer than {LONGEST} characters"
        )


def _digest(params: Params) -> str:
    written = msgspec.json.encode(params, order="deterministic")
    return blake2b(written, digest_size=16).hexdigest()


def _mismatch() -> AwsError:
    return AwsError(
        "IdempotentParameterMismatch",
        "The client token you have provided is associated with a resource that was created with "
        "other parameters.",
    )
