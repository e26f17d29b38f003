"""A running cluster as the input of a command: --from-cluster, --context, --kubeconfig."""

import asyncio
from functools import cache
from secrets import token_hex

from wainwright.cli import printing
from wainwright.clock import SystemClock
from wainwright.errors import ServerUnavailableError
from wainwright.kube.api_server_access import ApiServerAddress
from wainwright.kube.client import KubeClient
from wainwright.kube.kubeconfig import load_address
from wainwright.kube.snapshot import (
    RIGHTS_HINT,
    ClusterSnapshot,
    describe_left_out,
    describe_missing,
    take_snapshot,
)
from wainwright.manifests.source_files import NamedText
from wainwright.messages.formatting import format_count


def read_snapshot(kubeconfig: str, context: str) -> ClusterSnapshot:
    """The cluster as it is now; it is only read. What is missing is noted on standard error."""
    address = load_address(kubeconfig=kubeconfig, context=context)
    try:
        snapshot = asyncio.run(_take(address))
    except ServerUnavailableError as error:
        error.hint = error.hint or _hint(error, address)
        raise
    missing = describe_missing(snapshot.missing_kinds)
    if missing:
        hint = "plan with your own NodePools: name their file in addition to --from-cluster"
        _note_once(f"note: {missing}; {hint}")
    left_out = describe_left_out(snapshot.left_out)
    if left_out:
        _note_once(f"note: {left_out}; {RIGHTS_HINT}")
    if snapshot.unreadable:
        count = format_count(snapshot.unreadable, "object")
        _note_once(f"note: left out, as it cannot be read: {count} of the cluster")
    return snapshot


@cache
def _note_once(note: str) -> None:
    """A cluster that is read every few seconds says the same each time."""
    printing.echo(note, err=True)


def _hint(error: ServerUnavailableError, address: ApiServerAddress) -> str:
    where = f"context {address.context!r}" if address.context else "this pod"
    if "certificate" in error.message.lower():
        return f"does {where} have the authority of this server, and the name in its certificate?"
    return f"is the API server of {where} up and reachable from here?"


async def _take(address: ApiServerAddress) -> ClusterSnapshot:
    async with KubeClient.connect(address) as client:
        return await take_snapshot(client, SystemClock(), seed=token_hex(8))


@cache
def cluster_text(kubeconfig: str, context: str) -> NamedText:
    """The snapshot as an argument beside files; read once in a run."""
    snapshot = read_snapshot(kubeconfig, context)
    return NamedText("the cluster", snapshot.to_json().decode())
