"""Tokens: how a launch is named, so that it can be asked for twice and happen once.

A claim's token follows from the claim and the number of the attempt; a batch's from the tokens in
it. Nothing is drawn by chance: whoever comes to the same launch again comes to the same name, and
another attempt is another name. EC2 gets the batch as client token, and every machine as a tag.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

from wainwright.model.claim import Claim, Mark

BATCH_TAG: Final = "wainwright.dev/batch"
LENGTH: Final = 32  # EC2 takes 64 characters, and half of them are unique enough


def token(uid: str, attempt: int) -> str:
    return _hash(f"{uid}/{attempt}")


def marks(claims: Sequence[Claim], now: float) -> list[Mark]:
    """One for each claim, in their order, for a launch of all of them together."""
    attempts = [1 if claim.mark is None else claim.mark.attempt + 1 for claim in claims]
    tokens = [token(claim.uid, attempt) for claim, attempt in zip(claims, attempts, strict=True)]
    batch = _hash("/".join(tokens))
    return [
        Mark(token=each, batch=batch, index=index, attempt=attempt, at=now)
        for index, (each, attempt) in enumerate(zip(tokens, attempts, strict=True))
    ]


def batch_of(tags: Mapping[str, str]) -> str:
    """The batch that a machine came from; empty for those of somebody else."""
    return tags.get(BATCH_TAG, "")


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:LENGTH]
