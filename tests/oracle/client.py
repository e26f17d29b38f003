"""Karpenter's own scheduler as a child process that is sent a cluster and answers.

The Go program in this folder is built once into the cache, as the control plane is; where Go is
missing, tests are skipped, or fail where WAIN_REQUIRE_GO=1 requires all tools.
"""

import hashlib
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from tests.support.processes import GoModule, MissingTool, build_commands

COMMAND: Final = "oracle"


class OracleFailed(RuntimeError):
    """The scheduler rejected the cluster, or the process ended."""


class OracleOutOfTime(OracleFailed):
    """The process was killed when it had used up the processor time that it was given."""


class OracleModule(GoModule):
    """A Go module with code of its own, which decides what is built as much as its go.sum does."""

    @property
    def cache(self) -> Path:
        digest = hashlib.sha256(super().cache.name.encode())
        for file in sorted(self.folder.glob("*.go")):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
        return super().cache.with_name(digest.hexdigest()[:12])


MODULE: Final = OracleModule(
    folder=Path(__file__).parents[1] / "oracle", packages={COMMAND: COMMAND}
)


class OracleOffering(msgspec.Struct, frozen=True):
    """An offering that a claim could still be launched with."""

    instanceType: str
    capacityType: str
    zone: str
    price: float
    reservationID: str | None = None


class OracleClaim(msgspec.Struct, frozen=True):
    """A NodeClaim of the scheduler."""

    nodePool: str
    pods: tuple[str, ...]
    cheapest: float
    instanceTypes: tuple[str, ...] = ()
    offerings: tuple[OracleOffering, ...] = ()
    nodeClaim: dict[str, Any] | None = None


class OracleNode(msgspec.Struct, frozen=True):
    """A node of the cluster that receives pods."""

    name: str
    providerID: str
    pods: tuple[str, ...]


class OraclePodError(msgspec.Struct, frozen=True):
    """A pod without a place in this loop."""

    pod: str
    waits: bool
    """Put off because a reservation is held, rather than refused."""
    message: str


class OracleCommand(msgspec.Struct, frozen=True):
    """What the disruption controller does next; the answer's claims replace the nodes."""

    method: str
    nodes: tuple[str, ...]


class OraclePass(msgspec.Struct, frozen=True):
    """How long a method of disruption took."""

    method: str
    candidates: int
    seconds: float
    processor: float


class OracleAnswer(msgspec.Struct, frozen=True):
    """The result of one provisioning loop, or of one pass of disruption."""

    claims: tuple[OracleClaim, ...] = ()
    existing: tuple[OracleNode, ...] = ()
    errors: tuple[OraclePodError, ...] = ()
    command: OracleCommand | None = None
    """None where nothing is left to do."""
    passes: tuple[OraclePass, ...] = ()
    prepared: float = 0.0
    """Seconds to make the scheduler."""
    seconds: float = 0.0
    """Seconds that it took to decide, by the clock on the wall."""
    processor: float = 0.0
    """Seconds that processors were busy with it, which are more where several were."""
    error: str = ""


class Oracle:
    """A running scheduler; leaving its `with` block ends it."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        self._child = child

    @classmethod
    def start(cls, processor_seconds: int | None = None) -> Self:
        """Builds it where that has not been done; raises `Missing` where it cannot be.

        After so many seconds of processor time, if they are given, the kernel ends it.
        """
        command = [str(_command())]
        if processor_seconds is not None:
            command = ["sh", "-c", 'ulimit -t "$1" && exec "$0"', *command, str(processor_seconds)]
        # It ends by itself when its input does, so it cannot outlive the tests.
        return cls(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the process. Can be called again."""
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()
        self._child.wait(timeout=30)

    def schedule(self, question: Mapping[str, Any]) -> OracleAnswer:
        """The scheduler's result for a cluster after a single loop."""
        return self.schedule_json(msgspec.json.encode(question))

    def schedule_json(self, question: bytes) -> OracleAnswer:
        """The same for a question that is JSON already, on one line."""
        into, out = self._child.stdin, self._child.stdout
        assert into is not None
        assert out is not None
        try:
            into.write(question + b"\n")
            into.flush()
        except BrokenPipeError:
            raise OracleFailed("the oracle has ended") from None
        line = out.readline()
        if not line:
            if self._child.wait(timeout=30) == -signal.SIGKILL:
                raise OracleOutOfTime("the oracle was killed, as it had used up its processor time")
            raise OracleFailed("the oracle has ended without an answer")
        answer = msgspec.json.decode(line, type=OracleAnswer)
        if answer.error:
            raise OracleFailed(answer.error)
        return answer


def _command() -> Path:
    try:
        return build_commands(MODULE, [COMMAND]) / COMMAND
    except MissingTool as missing:
        raise MissingTool(f"to compare with Karpenter's own scheduler, {missing}") from None
