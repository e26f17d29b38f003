"""The door: a request in, a reply out, in the protocol of the service that was asked."""

import logging
from random import Random
from typing import Final
from uuid import UUID

from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.http.journal import Entry, Journal
from wainwright.emulator.http.protocols import Speech
from wainwright.emulator.http.services import Guess, signed_for, speech
from wainwright.emulator.http.wire import Incoming, Reply
from wainwright.emulator.world import Params
from wainwright.errors import AwsError

LOG: Final = logging.getLogger(__name__)
UNSIGNED: Final = AwsError("MissingAuthenticationToken", "Request is missing its signature", 403)
TOO_LARGE: Final = AwsError("RequestEntityTooLarge", "The request is too large", 413)
BROKEN: Final = AwsError("InternalError", "An internal error has occurred", 500)


class Door:
    """Knows which service is meant and how it speaks; all else is the cloud's."""

    def __init__(self, cloud: EmulatedCloud, journal: Journal, *, seed: int = 0) -> None:
        self._cloud = cloud
        self._journal = journal
        self._chance = Random(seed)

    async def answer(self, incoming: Incoming) -> Reply | None:
        """None where no answer comes: the connection ends, and whoever asked may wonder."""
        asked, request_id = _Asked(), self._request_id()
        begin = self._cloud.clock.now()
        spoken, reply, error = None, None, None
        try:
            spoken = _spoken(incoming, asked)
            reply = await self._answered(spoken, incoming, asked, request_id)
        except AwsError as refused:
            error = refused
        except Exception:
            # Whatever went wrong is ours; who asked must still get an answer that can be read.
            LOG.exception("%s %s failed", asked.service, asked.operation)
            error = BROKEN
        if error is not None and error.status:
            reply = (spoken or Guess(error, incoming)).refusal(error, request_id)
        self._note(asked, begin, reply, error)
        return reply

    def too_large(self, incoming: Incoming) -> Reply:
        """To a request whose body nobody will read."""
        return Guess(TOO_LARGE, incoming).refusal(TOO_LARGE, self._request_id())

    def _request_id(self) -> str:
        return str(UUID(int=self._chance.getrandbits(128), version=4))

    async def _answered(
        self, spoken: Speech, incoming: Incoming, asked: "_Asked", request_id: str
    ) -> Reply:
        asked.operation = spoken.operation(incoming)
        asked.params = spoken.params(asked.operation, incoming)
        answer = await self._cloud.call(asked.service, asked.operation, asked.params)
        return spoken.answer(asked.operation, answer, request_id)

    def _note(
        self, asked: "_Asked", begin: float, reply: Reply | None, error: AwsError | None
    ) -> None:
        self._journal.note(
            Entry(
                at=begin,
                seconds=self._cloud.clock.now() - begin,
                service=asked.service,
                operation=asked.operation,
                status=0 if reply is None else reply.status,
                code=None if error is None else error.code,
                params=asked.params,
            )
        )


class _Asked:
    """What is known of a request so far."""

    def __init__(self) -> None:
        self.service = ""
        self.operation = ""
        self.params: Params = {}


def _spoken(incoming: Incoming, asked: _Asked) -> Speech:
    """How to speak to whom the request is for, or how to say that nobody knows."""
    service = signed_for(incoming)
    if service is None:
        return Guess(UNSIGNED, incoming)
    asked.service = service
    found = speech(service)
    if found is not None:
        return found
    return Guess(AwsError("InvalidAction", f"There is no service {service} here."), incoming)
