"""Services: of interest only for the pods that they select."""

from wainwright.api.builtin.part import Part
from wainwright.api.wire import Metadata


class ServiceSpec(Part, frozen=True, kw_only=True):
    selector: dict[str, str] | None = None
    """Absent or empty, it says nothing of any pod's kin."""


class Service(Part, frozen=True, kw_only=True):
    apiVersion: str = "v1"
    kind: str = "Service"
    metadata: Metadata = Metadata()
    spec: ServiceSpec = ServiceSpec()
