"""Dry runs: what EC2 says to a question that was only a trial.

The entrance says so by itself where a trial needs no more than the right to ask. A part that looks
at the question first (a template that does not exist, say) lists the operation in `dry_runs`, and
its handler raises this in the end.
"""

from wainwright.errors import AwsError


def would_have_succeeded() -> AwsError:
    return AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
