"""The verdicts of a running process as one JSON object: `/verdicts`."""

from wainwright.clock import format_timestamp
from wainwright.controllers.disruption.disruption_controller import CurrentVerdicts
from wainwright.report.consolidation_json import Document, node_document
from wainwright.report.json_text import dump_json


def verdicts_json(current: CurrentVerdicts) -> bytes:
    """Nodes as in `wain consolidate -o json`; of those that a command has taken, it is under way.

    Nothing but names, amounts and sentences about them: no labels and no environment of pods.
    """
    document: Document = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Verdicts",
        "now": None if current.looked_at is None else format_timestamp(current.looked_at),
        "nodes": [
            {
                **node_document(each, current.in_flight.get(each.candidate.name, ())),
                "commandInFlight": each.candidate.name in current.in_flight,
            }
            for each in current.outcomes
        ],
    }
    return dump_json(document).encode()
