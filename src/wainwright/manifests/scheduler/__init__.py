"""The configuration of the cluster's kube-scheduler, as far as it decides where pods go."""

from wainwright.manifests.scheduler.file import Scheduler, read

__all__ = ["Scheduler", "read"]
