"""The errors of EC2 when an instance cannot be launched: one function per reason."""

from collections.abc import Sequence

from wainwright.emulator.ec2.instance.lifecycle import SPOT
from wainwright.errors import AwsError


def insufficient_capacity(instance_type: str, zone: str, capacity_type: str) -> AwsError:
    """The capacity pool is empty."""
    if capacity_type == SPOT:
        return AwsError(
            "InsufficientInstanceCapacity",
            f"There is no Spot capacity available that matches your request for {instance_type} "
            f"in {zone}.",
        )
    return AwsError(
        "InsufficientInstanceCapacity",
        f"We currently do not have sufficient {instance_type} capacity in the Availability Zone "
        f"you requested ({zone}). Our system will be working on provisioning additional capacity.",
    )


def unsupported_zone(instance_type: str, zone: str, supported_zones: Sequence[str]) -> AwsError:
    """The instance type is not offered in that zone."""
    text = (
        f"Your requested instance type ({instance_type}) is not supported in your requested "
        f"Availability Zone ({zone})."
    )
    if supported_zones:
        text += (
            " Please retry your request by not specifying an Availability Zone or choosing "
            f"{', '.join(supported_zones)}."
        )
    return AwsError("Unsupported", text)


def invalid_instance_type(instance_type: str) -> AwsError:
    return AwsError("InvalidParameterValue", f"Invalid value '{instance_type}' for InstanceType.")


def spot_unsupported(instance_type: str) -> AwsError:
    return AwsError(
        "Unsupported", f"Spot Instances of type {instance_type} are not supported in this Region."
    )


def unfulfillable_capacity() -> AwsError:
    """The request itself leaves no capacity pool to try."""
    return AwsError(
        "UnfulfillableCapacity",
        "Unable to fulfill capacity due to your request configuration. Please adjust your request "
        "and try again.",
    )


def spot_max_price_too_low(max_price: float, price: float) -> AwsError:
    return AwsError(
        "SpotMaxPriceTooLow",
        f"Your Spot request price of {max_price:g} is lower than the minimum required Spot request "
        f"fulfillment price of {price:g}.",
    )


def spot_role_missing() -> AwsError:
    return AwsError(
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        "The provided credentials do not have permission to create the service-linked role for "
        "EC2 Spot Instances.",
        403,
    )


def vcpu_limit_exceeded(limit: int) -> AwsError:
    return AwsError(
        "VcpuLimitExceeded",
        f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows for "
        "the instance bucket that the specified instance type belongs to. Please request an "
        "adjustment to this limit.",
    )


def spot_limit_exceeded() -> AwsError:
    return AwsError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")


def fleet_limit_exceeded(limit: int) -> AwsError:
    return AwsError(
        "MaxFleetCountExceeded", f"You have reached your limit of {limit} fleets in this region."
    )


def architecture_mismatch(of_type: str, of_image: str) -> AwsError:
    return AwsError(
        "InvalidParameterValue",
        f"The architecture '{of_type}' of the specified instance type does not match the "
        f"architecture '{of_image}' of the specified AMI. Specify an instance type and an AMI that "
        "have matching architectures, and try again.",
    )
