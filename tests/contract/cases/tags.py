"""Tags."""

from tests.contract.case import case, fresh_name
from tests.contract.cases.network import subnet, vpc
from tests.contract.doors import Door, refusal

AWKWARD = {
    "empty": "",
    "markup": """<a href="x">&amp; 'b'</a>""",
    "spaces": "  two  words ",
    "lines": "one\ntwo",
    "letters": "Zürich · 東京 · 🚚",
    "kubernetes.io/cluster/wain": "owned",
    "percent": "100%25+1",
}


def tags_of(door: Door, identity: str) -> dict[str, str]:
    (found,) = door.ask("ec2", "DescribeSubnets", SubnetIds=[identity])["Subnets"]
    return {pair["Key"]: pair["Value"] for pair in found.get("Tags", [])}


@case()
def awkward_tags_come_back_as_they_were(door: Door) -> None:
    made = subnet(door, vpc(door))["SubnetId"]
    pairs = [{"Key": key, "Value": value} for key, value in AWKWARD.items()]
    door.ask("ec2", "CreateTags", Resources=[made], Tags=pairs)
    assert tags_of(door, made) == AWKWARD


@case()
def a_tag_set_again_has_the_new_value(door: Door) -> None:
    made = subnet(door, vpc(door), team="old", other="kept")["SubnetId"]
    door.ask("ec2", "CreateTags", Resources=[made], Tags=[{"Key": "team", "Value": "new"}])
    assert tags_of(door, made) == {"team": "new", "other": "kept"}


@case()
def a_tag_can_be_taken_away(door: Door) -> None:
    made = subnet(door, vpc(door), team="web", other="kept")["SubnetId"]
    door.ask("ec2", "DeleteTags", Resources=[made], Tags=[{"Key": "team"}])
    assert tags_of(door, made) == {"other": "kept"}


@case()
def several_resources_are_tagged_at_once(door: Door) -> None:
    home = vpc(door)
    both = [subnet(door, home, third)["SubnetId"] for third in (1, 2)]
    mark = fresh_name("mark")
    door.ask("ec2", "CreateTags", Resources=both, Tags=[{"Key": "mark", "Value": mark}])
    found = door.ask("ec2", "DescribeTags", Filters=[{"Name": "value", "Values": [mark]}])["Tags"]
    assert sorted(each["ResourceId"] for each in found) == sorted(both)
    assert {each["ResourceType"] for each in found} == {"subnet"}


@case(moto_wrong="it accepts tags for machines that do not exist")
def a_machine_that_does_not_exist_cannot_be_tagged(door: Door) -> None:
    code, status = refusal(
        door,
        "ec2",
        "CreateTags",
        Resources=["i-0123456789abcdef0"],
        Tags=[{"Key": "a", "Value": "b"}],
    )
    assert (code, status) == ("InvalidInstanceID.NotFound", 400)
