"""`wain snapshot`: what scheduling and disruption depend on, of a running cluster, as one file."""

import click

from wainwright.cli import printing
from wainwright.cli.cluster_input import read_snapshot
from wainwright.kube.snapshot import snapshot_rules


@click.command()
@click.option(
    "--context",
    metavar="NAME",
    default="",
    help="The kubeconfig context; default: the current one.",
)
@click.option(
    "--kubeconfig", metavar="FILE", default="", help="The kubeconfig file; default: $KUBECONFIG."
)
@click.option(
    "--redact",
    "is_redacted",
    is_flag=True,
    help="Replace names and label values by words; equal ones stay equal.",
)
@click.option("--rbac", is_flag=True, help="Print the ClusterRole that it needs, and nothing else.")
def snapshot(context: str, kubeconfig: str, is_redacted: bool, rbac: bool) -> int:
    """Print the cluster as one List, which every offline command reads: wain plan cluster.json.

    It only reads. Pods come without environment, commands, images and the contents of volumes. Two
    snapshots of an unchanged cluster are the same bytes.
    """
    if rbac:
        for manifest in snapshot_rules():
            printing.echo_yaml(manifest)
        return 0
    taken = read_snapshot(kubeconfig, context)
    if is_redacted:
        from wainwright.redacted_cluster import redact_cluster  # hashes need the provider's code

        taken = redact_cluster(taken)
    printing.echo_json_text(taken.to_json().decode())
    return 0
