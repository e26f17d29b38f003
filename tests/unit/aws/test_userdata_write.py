"""User data as EC2 takes it: its size, its encoding, and the family that wants none of ours."""

from base64 import b64decode
from typing import Any

import msgspec
import pytest

from wainwright.aws.templates.kinds import kind
from wainwright.aws.userdata.bootstrap import Bootstrap
from wainwright.aws.userdata.write import LIMIT, TooLarge, UserData, user_data
from wainwright.catalogue import builtin
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.density import pods
from wainwright.catalogue.settings import ClassSettings, Override
from wainwright.catalogue.shapes import shape, size
from wainwright.model.requirements import Requirements

PLAIN = Bootstrap(
    cluster="wain",
    endpoint="https://0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com",
    ca="A" * 1500,
    cidr="10.100.0.0/16",
    labels={f"example.com/label-{n}": f"value-{n}" for n in range(20)},
)

NONE = Requirements.from_labels({})


def changed(**changes: Any) -> Bootstrap:
    return msgspec.structs.replace(PLAIN, **changes)


def test_a_custom_image_gets_the_users_text_as_it_is() -> None:
    text = "\n\tany <text> & 'quotes' \r\n"
    assert user_data(AmiFamily.CUSTOM, changed(text=text)).text == text
    assert user_data(AmiFamily.CUSTOM, PLAIN).text == ""


@pytest.mark.parametrize("family", AmiFamily)
def test_what_is_encoded_is_what_is_written(family: AmiFamily) -> None:
    text = "" if family is AmiFamily.BOTTLEROCKET else "# größer\n"
    made = user_data(family, changed(text=text))
    assert b64decode(made.encoded).decode() == made.text
    assert made.size == len(b64decode(made.encoded))


def test_the_limit_counts_bytes() -> None:
    largest = user_data(AmiFamily.CUSTOM, changed(text="ü" * (LIMIT // 2)))
    assert largest.size == LIMIT
    with pytest.raises(TooLarge, match=r"16,386 bytes, and EC2 allows 16,384"):
        user_data(AmiFamily.CUSTOM, changed(text="ü" * (LIMIT // 2 + 1)))


@pytest.mark.parametrize(("size", "warned"), [(14_000, False), (14_745, True), (LIMIT, True)])
def test_nine_tenths_are_worth_a_warning(size: int, warned: bool) -> None:
    assert bool(UserData("x" * size).warnings) is warned


def test_the_error_tells_whose_bytes_they_are() -> None:
    with pytest.raises(TooLarge, match="16,000 of them are the class's own userData"):
        user_data(AmiFamily.AL2023, changed(text="#" * 16_000))


@pytest.mark.parametrize("family", [AmiFamily.AL2, AmiFamily.AL2023, AmiFamily.WINDOWS2022])
def test_every_type_of_an_architecture_has_room(family: AmiFamily) -> None:
    settings = ClassSettings(ami_family=AmiFamily.AL2023)
    densities = {
        each.name: pods(each, settings).amount
        for each in builtin.machines().values()
        if each.architecture == "amd64"
    }
    assert user_data(family, changed(densities=densities)).size < 11_000


@pytest.mark.parametrize(("family", "objects"), [(AmiFamily.AL2, 90), (AmiFamily.AL2023, 180)])
def test_so_many_instance_type_objects_leave_room_for_every_type(
    family: AmiFamily, objects: int
) -> None:
    settings = ClassSettings(ami_family=family)
    machines = [each for each in builtin.machines().values() if each.architecture == "amd64"]
    made = {}
    for number, each in enumerate(machines):
        override = Override(resources={"pods": 5 + number} if number < objects else {})
        made[each.name] = kind(each, size(shape(each, settings, override)), NONE, settings)
    told = changed(
        densities={name: each.density for name, each in made.items()},
        reserved={name: each.reserved for name, each in made.items() if each.reserved},
    )
    assert len(told.reserved) == objects
    assert user_data(family, told).size < LIMIT
