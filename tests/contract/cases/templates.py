"""Launch templates."""

from base64 import b64encode

from tests.contract.case import case, fresh_name
from tests.contract.doors import Door, pages, refusal, refused

NOT_FOUND = ("InvalidLaunchTemplateName.NotFoundException", 400)
DATA = {
    "ImageId": "ami-0123456789abcdef0",
    "UserData": b64encode(b"#!/bin/sh\n").decode(),
    "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
    "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-0123456789abcdef0"]}],
    "CapacityReservationSpecification": {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"},
    },
}


def create(door: Door, name: str, **tags: str) -> str:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    more = {"TagSpecifications": [{"ResourceType": "launch-template", "Tags": pairs}]}
    answer = door.ask(
        "ec2",
        "CreateLaunchTemplate",
        LaunchTemplateName=name,
        LaunchTemplateData=DATA,
        **(more if tags else {}),
    )
    return str(answer["LaunchTemplate"]["LaunchTemplateId"])


@case()
def a_template_is_found_by_its_name_and_by_its_id(door: Door) -> None:
    name = fresh_name("found")
    identity = create(door, name)
    for how in ({"LaunchTemplateNames": [name]}, {"LaunchTemplateIds": [identity]}):
        (found,) = door.ask("ec2", "DescribeLaunchTemplates", **how)["LaunchTemplates"]
        assert found["LaunchTemplateName"] == name
        assert found["LaunchTemplateId"] == identity
        assert found["DefaultVersionNumber"] == found["LatestVersionNumber"] == 1


@case()
def a_name_that_nobody_has_is_an_error(door: Door) -> None:
    assert (
        refusal(door, "ec2", "DescribeLaunchTemplates", LaunchTemplateNames=["none"]) == NOT_FOUND
    )


@case()
def a_name_can_be_had_only_once(door: Door) -> None:
    name = fresh_name("twice")
    create(door, name)
    expected = ("InvalidLaunchTemplateName.AlreadyExistsException", 400)
    assert refused(lambda: create(door, name)) == expected


@case()
def what_a_template_says_is_kept_whole(door: Door) -> None:
    identity = create(door, fresh_name("kept"))
    (version,) = door.ask("ec2", "DescribeLaunchTemplateVersions", LaunchTemplateId=identity)[
        "LaunchTemplateVersions"
    ]
    said = version["LaunchTemplateData"]
    assert {key: said[key] for key in DATA} == DATA


@case()
def deleted_by_id_it_is_gone_and_its_name_is_free(door: Door) -> None:
    name = fresh_name("gone")
    identity = create(door, name)
    answer = door.ask("ec2", "DeleteLaunchTemplate", LaunchTemplateId=identity)
    assert answer["LaunchTemplate"]["LaunchTemplateName"] == name
    assert refusal(door, "ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name]) == NOT_FOUND
    assert create(door, name) != identity


@case()
def it_can_be_deleted_by_its_name(door: Door) -> None:
    name = fresh_name("named")
    create(door, name)
    door.ask("ec2", "DeleteLaunchTemplate", LaunchTemplateName=name)
    assert refusal(door, "ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name]) == NOT_FOUND


@case(moto_wrong="it answers MissingParameter")
def deleting_a_name_that_nobody_has_is_an_error(door: Door) -> None:
    assert refusal(door, "ec2", "DeleteLaunchTemplate", LaunchTemplateName="none") == NOT_FOUND


@case(moto_wrong="it answers with the code for names")
def deleting_an_id_that_nobody_has_is_an_error_of_its_own(door: Door) -> None:
    wrong = "lt-0123456789abcdef0"
    code, status = refusal(door, "ec2", "DeleteLaunchTemplate", LaunchTemplateId=wrong)
    assert (code, status) == ("InvalidLaunchTemplateId.NotFound", 400)


@case()
def templates_are_found_by_tag(door: Door) -> None:
    team = fresh_name("team")
    identity = create(door, fresh_name("tagged"), team=team, empty="")
    create(door, fresh_name("tagged"), team="another")
    (found,) = door.ask(
        "ec2", "DescribeLaunchTemplates", Filters=[{"Name": "tag:team", "Values": [team]}]
    )["LaunchTemplates"]
    assert found["LaunchTemplateId"] == identity
    tags = {pair["Key"]: pair["Value"] for pair in found["Tags"]}
    assert tags == {"team": team, "empty": ""}


@case(moto_wrong="without MaxResults it gives 15 and no token")
def a_list_without_a_size_is_whole(door: Door) -> None:
    names = {fresh_name("many") for _ in range(20)}
    for name in names:
        create(door, name)
    answer = door.ask("ec2", "DescribeLaunchTemplates")
    assert names <= {each["LaunchTemplateName"] for each in answer["LaunchTemplates"]}


@case(moto_wrong="it cuts the list and gives no token for the rest")
def a_list_comes_in_pages(door: Door) -> None:
    crowd = fresh_name("crowd")
    names = sorted(fresh_name("page") for _ in range(7))
    for name in names:
        create(door, name, crowd=crowd)
    found = pages(
        door,
        "ec2",
        "DescribeLaunchTemplates",
        "LaunchTemplates",
        Filters=[{"Name": "tag:crowd", "Values": [crowd]}],
        MaxResults=3,
    )
    assert [len(page) for page in found] == [3, 3, 1]
    assert sorted(each["LaunchTemplateName"] for page in found for each in page) == names
