"""EC2 on the wire: forms in, XML out."""

from urllib.parse import urlencode

import pytest
from tests.contract.client_checks.setup import unique_name
from tests.contract.raw_http import FORM, RawConnection, authorization_header


def subnet(wire: RawConnection) -> str:
    found = wire.form("ec2", "DescribeSubnets").text("subnetSet/item/subnetId")
    assert found is not None
    return found


def template(wire: RawConnection, **data: str) -> str:
    name = unique_name("karpenter.k8s.aws/wire")
    fields = {f"LaunchTemplateData__{key}": value for key, value in data.items()}
    reply = wire.form("ec2", "CreateLaunchTemplate", LaunchTemplateName=name, **fields)
    assert reply.status == 200, reply.body
    return name


def image(wire: RawConnection) -> str:
    name = (
        "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"
    )
    reply = wire.target("ssm", "AmazonSSM.GetParameter", "1.1", {"Name": name})
    return str(reply.json["Parameter"]["Value"])


def test_ec2_accepts_a_form_and_returns_xml(wire: RawConnection) -> None:
    reply = wire.form("ec2", "DescribeAvailabilityZones")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/xml")
    assert b'xmlns="http://ec2.amazonaws.com/doc/2016-11-15' in reply.body
    assert reply.xml.tag == "DescribeAvailabilityZonesResponse"
    assert reply.text("requestId") == reply.headers["x-amzn-requestid"]
    assert reply.text("availabilityZoneInfo/item/zoneName") == "us-east-1a"


def test_ec2_lists_are_numbered_without_a_member_name(wire: RawConnection) -> None:
    reply = wire.form(
        "ec2",
        "DescribeSubnets",
        Filter__1__Name="availability-zone",
        Filter__1__Value__1="us-east-1a",
        Filter__1__Value__2="us-east-1b",
        Filter__2__Name="tag:karpenter.sh/discovery",
        Filter__2__Value__1="wain",
    )
    found = reply.xml.findall("subnetSet/item/availabilityZone")
    assert sorted(each.text or "" for each in found) == ["us-east-1a", "us-east-1b"]


def test_list_indexes_may_have_gaps(wire: RawConnection) -> None:
    reply = wire.form("ec2", "DescribeInstanceTypes", InstanceType__7="m5.large")
    assert reply.text("instanceTypeSet/item/instanceType") == "m5.large"


def test_query_names_that_differ_from_member_names(wire: RawConnection) -> None:
    group = wire.form(
        "ec2",
        "DescribeSecurityGroups",
        Filter__1__Name="tag:karpenter.sh/discovery",
        Filter__1__Value__1="wain",
    ).text("securityGroupInfo/item/groupId")
    assert group is not None
    name = template(
        wire,
        ImageId=image(wire),
        NetworkInterface__1__DeviceIndex="0",
        NetworkInterface__1__SecurityGroupId__1=group,
        TagSpecification__1__ResourceType="network-interface",
        TagSpecification__1__Tag__1__Key="team",
        TagSpecification__1__Tag__1__Value="",
        MetadataOptions__HttpPutResponseHopLimit="1",
        Monitoring__Enabled="false",
    )
    reply = wire.form("ec2", "DescribeLaunchTemplateVersions", LaunchTemplateName=name)
    data = "launchTemplateVersionSet/item/launchTemplateData"
    assert reply.text(f"{data}/networkInterfaceSet/item/groupSet/groupId") == group
    assert reply.text(f"{data}/tagSpecificationSet/item/tagSet/item/key") == "team"
    assert reply.text(f"{data}/tagSpecificationSet/item/tagSet/item/value") == ""
    assert reply.text(f"{data}/monitoring/enabled") == "false"


def test_markup_in_values_is_escaped(wire: RawConnection) -> None:
    value = """<&> "two" 'one' ]]> é"""
    reply = wire.form(
        "ec2",
        "CreateTags",
        ResourceId__1=subnet(wire),
        Tag__1__Key="markup",
        Tag__1__Value=value,
    )
    assert reply.text("return") == "true"
    reply = wire.form("ec2", "DescribeTags", Filter__1__Name="key", Filter__1__Value__1="markup")
    assert b"&lt;&amp;&gt;" in reply.body
    assert reply.text("tagSet/item/value") == value


def test_ec2_timestamps_are_iso_8601(wire: RawConnection) -> None:
    reply = wire.form("ec2", "DescribeSpotPriceHistory", MaxResults="5")
    moment = reply.text("spotPriceHistorySet/item/timestamp") or ""
    assert moment.endswith("Z")
    assert "T" in moment
    after = wire.form(
        "ec2", "DescribeSpotPriceHistory", MaxResults="5", StartTime="2026-06-01T00:00:00Z"
    )
    assert after.status == 200


def test_small_numbers_are_plain_decimals(wire: RawConnection) -> None:
    small = "0.00000007808000000000001"
    reply = wire.form(
        "ec2",
        "CreateFleet",
        Type="instant",
        TargetCapacitySpecification__TotalTargetCapacity="1",
        TargetCapacitySpecification__DefaultTargetCapacityType="on-demand",
        OnDemandOptions__AllocationStrategy="lowest-price",
        LaunchTemplateConfigs__1__LaunchTemplateSpecification__LaunchTemplateName=template(
            wire, ImageId=image(wire)
        ),
        LaunchTemplateConfigs__1__LaunchTemplateSpecification__Version="$Latest",
        LaunchTemplateConfigs__1__Overrides__1__InstanceType="m5.large",
        LaunchTemplateConfigs__1__Overrides__1__SubnetId=subnet(wire),
        LaunchTemplateConfigs__1__Overrides__1__Priority=small,
    )
    overrides = "fleetInstanceSet/item/launchTemplateAndOverrides/overrides"
    assert reply.text(f"{overrides}/priority") == small, reply.body
    assert reply.text("fleetInstanceSet/item/instanceIds/item")


def test_errors_of_ec2(wire: RawConnection) -> None:
    reply = wire.form("ec2", "DescribeInstances", InstanceId__1="i-0123456789abcdef0")
    assert reply.status == 400
    assert reply.xml.tag == "Response"
    assert reply.text("Errors/Error/Code") == "InvalidInstanceID.NotFound"
    assert reply.text("Errors/Error/Message")
    assert reply.text("RequestID") == reply.headers["x-amzn-requestid"]


REFUSED_BY_EC2 = {
    "no such action": ({"Action": "DescribeNothing"}, "InvalidAction", "DescribeNothing"),
    "no action at all": ({"Version": "2016-11-15"}, "MissingAction", "Action"),
    "an unknown parameter": (
        {"Action": "DescribeInstances", "Wrong.1": "x"},
        "UnknownParameter",
        "Wrong",
    ),
    "an unknown parameter within": (
        {"Action": "DescribeInstances", "Filter.1.Wrong": "x"},
        "UnknownParameter",
        "Filter.1.Wrong",
    ),
    "a parameter that is lacking": (
        {"Action": "TerminateInstances"},
        "MissingParameter",
        "InstanceId",
    ),
    "a text for a number": (
        {"Action": "DescribeInstances", "MaxResults": "many"},
        "InvalidParameterValue",
        "MaxResults",
    ),
    "a text for a truth": (
        {"Action": "DescribeInstances", "DryRun": "perhaps"},
        "InvalidParameterValue",
        "DryRun",
    ),
    "a value that has members": (
        {"Action": "DescribeInstances", "MaxResults": "5", "MaxResults.1": "5"},
        "UnknownParameter",
        "MaxResults.1",
    ),
    "a list without numbers": (
        {"Action": "DescribeInstances", "InstanceId.first": "i-1"},
        "UnknownParameter",
        "InstanceId.first",
    ),
    "a time that is none": (
        {"Action": "DescribeSpotPriceHistory", "StartTime": "yesterday"},
        "InvalidParameterValue",
        "StartTime",
    ),
}


@pytest.mark.parametrize("name", REFUSED_BY_EC2)
def test_invalid_ec2_requests_have_ec2_errors(name: str, wire: RawConnection) -> None:
    fields, code, content = REFUSED_BY_EC2[name]
    headers = {"Authorization": authorization_header("ec2"), "Content-Type": FORM}
    reply = wire.send("POST", "/", urlencode(fields), headers)
    assert reply.status == 400
    assert reply.text("Errors/Error/Code") == code
    assert content in (reply.text("Errors/Error/Message") or "")


def test_a_body_that_is_not_utf_8_is_rejected(wire: RawConnection) -> None:
    headers = {"Authorization": authorization_header("ec2"), "Content-Type": FORM}
    reply = wire.send("POST", "/", b"Action=DescribeInstances&x=%ff%fe", headers)
    assert reply.status == 400
    assert reply.text("Errors/Error/Code") == "MalformedQueryString"


def test_a_dry_run_has_its_own_error(wire: RawConnection) -> None:
    reply = wire.form("ec2", "DescribeInstanceTypes", DryRun="true")
    assert reply.status == 412
    assert reply.text("Errors/Error/Code") == "DryRunOperation"


def test_a_presigned_get_request_is_accepted(wire: RawConnection) -> None:
    query = urlencode(
        {
            "Action": "DescribeAvailabilityZones",
            "Version": "2016-11-15",
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
            "X-Amz-Credential": "AKID/20260131/us-east-1/ec2/aws4_request",
            "X-Amz-Signature": "00ff",
        }
    )
    reply = wire.send("GET", f"/?{query}", None, {})
    assert reply.xml.tag == "DescribeAvailabilityZonesResponse"


def test_a_request_without_signature_is_rejected(wire: RawConnection) -> None:
    reply = wire.send("POST", "/", "Action=DescribeInstances", {"Content-Type": FORM})
    assert reply.status == 403
    assert reply.text("Error/Code") == "MissingAuthenticationToken"
