"""Buying: orders that are alike go into one request, which is written down before it is made.

The order of things is what makes a crash harmless: templates, then the marks on the claims, then the
request, then its answer dealt out. Whatever is lost on the way, the marks and the tags lead back to
the machines.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from wainwright.aws.batch import FLEETS, Batcher, counted
from wainwright.aws.by_id import ById
from wainwright.aws.codes import NO_ADDRESSES, RESERVATION_FULL, SPOT_ROLE, shortage, typed
from wainwright.aws.codes import CAPACITY as CAPACITY_CODES
from wainwright.aws.ec2 import Ec2
from wainwright.aws.fleet import Bought, Failure, Reading, request
from wainwright.aws.instance import Instance
from wainwright.aws.nodeclass.resolved import Subnet
from wainwright.aws.operations import Failure as Kind
from wainwright.aws.operations import failure
from wainwright.aws.ordering import Order
from wainwright.aws.recovery import Recovery
from wainwright.aws.reservations import Availability
from wainwright.aws.seam import Answer
from wainwright.aws.slots import Slots
from wainwright.aws.stock import Stock
from wainwright.aws.subnets import Addresses
from wainwright.aws.templates.ensure import Templates
from wainwright.aws.templates.split import Config
from wainwright.aws.tokens import marks
from wainwright.clock import Clock
from wainwright.cloud import Ledger
from wainwright.errors import AwsError, BadInput, CloudError, NoCapacity, Unavailable, WainError
from wainwright.metrics import Kind as MetricKind
from wainwright.metrics import Metric, Registry
from wainwright.model.claim import Claim, Mark
from wainwright.model.labels import RESERVED, SPOT

LAUNCH_FAILURES: Final = Metric(
    name="karpenter_cloudprovider_instance_launch_failures_total",
    about="Pools that EC2 could not launch from, by its reason.",
    kind=MetricKind.COUNTER,
    labels=("zone", "zone_id", "capacity_type", "reason"),
)

Got: TypeAlias = Instance | WainError
"""What came of one order."""
