"""Images (AMIs): public ones of Amazon, and those of the account."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from wainwright.emulator import api_conventions
from wainwright.emulator.api_conventions import (
    IMAGE,
    find_by_ids,
    get_by_id,
    iso_timestamp,
    to_epoch_seconds,
)
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.describe_requests import (
    FilterFields,
    apply_filters,
    bool_value,
    optional_value,
    paginate,
)
from wainwright.emulator.ec2.tags import check_taggable_types, parse_tag_specifications, to_tag_list
from wainwright.errors import AwsError


class Image(msgspec.Struct, kw_only=True):
    id: str
    name: str
    architecture: str
    """As EC2 spells it: x86_64 or arm64."""
    owner: str
    """An account number."""
    owner_alias: str | None = None
    """amazon for its public images."""
    created: float
    description: str = ""
    platform: str | None = None
    """windows, or None."""
    state: str = "available"
    deprecated: float | None = None
    """Since when DescribeImages shows it only with IncludeDeprecated or by id."""
    public: bool = True
    root_device: str = "/dev/xvda"
    disks: list[dict[str, Any]] = []
    """Block device mappings, in the shape of the API."""
    tags: dict[str, str] = {}


MAX_RESULTS: Final = 1000
IMAGE_ARCHITECTURES: Final = ("i386", "x86_64", "arm64", "x86_64_mac", "arm64_mac")


class ImagesState(msgspec.Struct, kw_only=True):
    images: dict[str, Image] = {}


class Images:
    """Images that instances boot from."""

    name = "ec2"

    def __init__(self, context: AccountContext) -> None:
        self.state = ImagesState()
        self._context = context

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "DescribeImages": self.describe,
            "RegisterImage": self.register,
            "DeregisterImage": self.deregister,
            "EnableImageDeprecation": self.deprecate,
            "DisableImageDeprecation": self.undo_deprecation,
        }

    def add(self, images: Iterable[Image]) -> None:
        """Adds the images of a new account."""
        self.state.images.update((each.id, each) for each in images)

    def image(self, identity: str | None) -> Image:
        """The image of a launch: InvalidAMIID.NotFound if unknown, Unavailable if not ready."""
        if not identity:
            raise AwsError("MissingParameter", "The request must contain the parameter ImageId")
        _check_image_id(identity)
        image = self.state.images.get(identity)
        if image is None:
            raise _image_not_found([identity])
        if image.state != "available":
            message = f"The image ID '{identity}' is not available"
            raise AwsError("InvalidAMIID.Unavailable", message)
        return image

    def describe(self, params: Params) -> Response:
        image_ids = params.get("ImageIds")
        for identity in image_ids or ():
            _check_image_id(identity)
        rows = _find_images(self.state.images, image_ids)
        rows = [row for row in rows if self._is_visible(row, params)]
        rows = apply_filters(rows, params.get("Filters"), IMAGE_FILTERS, lambda row: row.tags)
        page, token = paginate(rows, params, maximum=MAX_RESULTS)
        return {"Images": [self._view(row) for row in page], **token}

    def register(self, params: Params) -> Response:
        check_taggable_types(params, "image", "snapshot")
        name = params.get("Name") or ""
        if any(each.name == name and self._is_own(each) for each in self.state.images.values()):
            raise AwsError("InvalidAMIName.Duplicate", f"AMI name {name} is already in use")
        architecture = params.get("Architecture") or "i386"
        if architecture not in IMAGE_ARCHITECTURES:
            message = f"Value ({architecture}) for parameter architecture is invalid."
            raise AwsError("InvalidParameterValue", message)
        image = Image(
            id=api_conventions.new_resource_id(self._context, "ami"),
            name=name,
            architecture=architecture,
            owner=self._context.account,
            created=self._context.now(),
            description=params.get("Description") or "",
            public=False,
            root_device=params.get("RootDeviceName") or "/dev/xvda",
            disks=[dict(each) for each in params.get("BlockDeviceMappings") or ()],
            tags=parse_tag_specifications(params, "image"),
        )
        self.state.images[image.id] = image
        return {"ImageId": image.id}

    def deregister(self, params: Params) -> Response:
        del self.state.images[self._require_own_image(params).id]
        return {"Return": True}

    def deprecate(self, params: Params) -> Response:
        self._require_own_image(params).deprecated = to_epoch_seconds(
            params.get("DeprecateAt"), "DeprecateAt"
        )
        return {"Return": True}

    def undo_deprecation(self, params: Params) -> Response:
        self._require_own_image(params).deprecated = None
        return {"Return": True}

    def _require_own_image(self, params: Params) -> Image:
        image = get_by_id(self.state.images, params.get("ImageId"), IMAGE)
        if not self._is_own(image):
            raise AwsError("AuthFailure", f"Not authorized for image:{image.id}", 403)
        return image

    def _is_own(self, image: Image) -> bool:
        return image.owner == self._context.account

    def _is_visible(self, image: Image, params: Params) -> bool:
        """Deprecated images of other owners are shown only by id or with IncludeDeprecated."""
        if not (image.public or self._is_own(image)):
            return False
        owners = params.get("Owners")
        if owners and not self._owned_by(image, owners):
            return False
        users = params.get("ExecutableUsers")
        if users and not ("all" in users if image.public else "self" in users):
            return False
        if (
            image.deprecated is None
            or image.deprecated > self._context.now()
            or self._is_own(image)
        ):
            return True
        return bool(params.get("IncludeDeprecated") or params.get("ImageIds"))

    def _owned_by(self, image: Image, owners: Iterable[str]) -> bool:
        names = {image.owner, image.owner_alias, "self" if self._is_own(image) else None}
        return not names.isdisjoint(owners)

    def _view(self, image: Image) -> Response:
        windows = image.platform == "windows"
        view: Response = {
            "ImageId": image.id,
            "Name": image.name,
            "ImageLocation": f"{image.owner_alias or image.owner}/{image.name}",
            "ImageType": "machine",
            "Architecture": image.architecture,
            "OwnerId": image.owner,
            "State": image.state,
            "Public": image.public,
            "CreationDate": iso_timestamp(image.created),
            "Description": image.description,
            "PlatformDetails": "Windows" if windows else "Linux/UNIX",
            "UsageOperation": "RunInstances:0002" if windows else "RunInstances",
            "RootDeviceName": image.root_device,
            "RootDeviceType": "ebs",
            "VirtualizationType": "hvm",
            "Hypervisor": "xen",
            "EnaSupport": True,
            "BlockDeviceMappings": msgspec.to_builtins(image.disks),
            "Tags": to_tag_list(image.tags),
        }
        if image.owner_alias is not None:
            view["ImageOwnerAlias"] = image.owner_alias
        if image.platform is not None:
            view["Platform"] = image.platform
        if image.deprecated is not None:
            view["DeprecationTime"] = iso_timestamp(image.deprecated)
        return view


IMAGE_FILTERS: Final[FilterFields[Image]] = {
    "architecture": lambda image: (image.architecture,),
    "creation-date": lambda image: (iso_timestamp(image.created),),
    "description": lambda image: (image.description,),
    "ena-support": lambda _: bool_value(True),
    "hypervisor": lambda _: ("xen",),
    "image-id": lambda image: (image.id,),
    "image-type": lambda _: ("machine",),
    "is-public": lambda image: bool_value(image.public),
    "name": lambda image: (image.name,),
    "owner-alias": lambda image: optional_value(image.owner_alias),
    "owner-id": lambda image: (image.owner,),
    "platform": lambda image: optional_value(image.platform),
    "root-device-name": lambda image: (image.root_device,),
    "root-device-type": lambda _: ("ebs",),
    "state": lambda image: (image.state,),
    "virtualization-type": lambda _: ("hvm",),
}


def _check_image_id(identity: str) -> None:
    if not identity.startswith("ami-"):
        message = f'Invalid id: "{identity}" (expecting "ami-...")'
        raise AwsError("InvalidAMIID.Malformed", message)


def _find_images(images: Mapping[str, Image], image_ids: Iterable[str] | None) -> list[Image]:
    missing_ids = [each for each in dict.fromkeys(image_ids or ()) if each not in images]
    if missing_ids:
        raise _image_not_found(missing_ids)
    return find_by_ids(images, image_ids, IMAGE)


def _image_not_found(ids: Sequence[str]) -> AwsError:
    """The message of EC2 for images differs from that of other resources."""
    ids_phrase = "id '[{}]' does" if len(ids) == 1 else "ids '[{}]' do"
    return AwsError(
        IMAGE.not_found_code, f"The image {ids_phrase.format(', '.join(ids))} not exist"
    )
