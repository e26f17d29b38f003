"""The other services on the wire: query, JSON 1.0 and 1.1, REST."""

import json

import pytest
from tests.contract.client_checks.setup import unique_name
from tests.contract.raw_http import FORM, RawConnection, authorization_header


def test_iam_responses_have_a_result_element(wire: RawConnection) -> None:
    name = unique_name("wire")
    reply = wire.form(
        "iam",
        "CreateInstanceProfile",
        region="aws-global",
        InstanceProfileName=name,
        Path="/wire/",
        Tags__member__1__Key="team",
        Tags__member__1__Value="",
    )
    result = "CreateInstanceProfileResult/InstanceProfile"
    assert reply.xml.tag == "CreateInstanceProfileResponse"
    assert reply.text(f"{result}/InstanceProfileName") == name
    assert reply.text(f"{result}/Tags/member/Key") == "team"
    assert reply.text("ResponseMetadata/RequestId") == reply.headers["x-amzn-requestid"]
    none = wire.form(
        "iam",
        "AddRoleToInstanceProfile",
        InstanceProfileName=name,
        RoleName="KarpenterNodeRole-wain",
    )
    assert [each.tag for each in none.xml] == ["ResponseMetadata"]


def test_errors_of_iam(wire: RawConnection) -> None:
    reply = wire.form("iam", "GetInstanceProfile", InstanceProfileName="none")
    assert (reply.status, reply.xml.tag) == (404, "ErrorResponse")
    assert reply.text("Error/Code") == "NoSuchEntity"
    assert reply.text("Error/Type") == "Sender"
    assert reply.text("RequestId") == reply.headers["x-amzn-requestid"]


def test_the_credential_scope_selects_the_service(wire: RawConnection) -> None:
    """The same body, signed for another service."""
    assert wire.form("ec2", "ListInstanceProfiles").text("Errors/Error/Code") == "InvalidAction"
    assert wire.form("iam", "ListInstanceProfiles").status == 200


def test_eks_operations_are_selected_by_path(wire: RawConnection) -> None:
    headers = {"Authorization": authorization_header("eks")}
    reply = wire.send("GET", "/clusters/wain", None, headers)
    assert reply.headers["content-type"] == "application/json"
    cluster = reply.json["cluster"]
    assert cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"]
    assert isinstance(cluster["createdAt"], float)
    for path in ("/clusters/none", "/clusters/%E2%82%AC%20x"):
        reply = wire.send("GET", path, None, headers)
        assert reply.status == 404
        assert reply.headers["x-amzn-errortype"] == "ResourceNotFoundException"
        assert reply.json["message"]
    assert "€ x" in reply.json["message"]


def test_an_unknown_eks_path_is_an_error(wire: RawConnection) -> None:
    reply = wire.send("GET", "/nothing/here", None, {"Authorization": authorization_header("eks")})
    assert reply.status == 400
    assert reply.headers["x-amzn-errortype"] == "InvalidAction"
    assert reply.json["message"]


def test_ssm_uses_json_1_1(wire: RawConnection) -> None:
    reply = wire.target("ssm", "AmazonSSM.GetParameter", "1.1", {"Name": "/none"})
    assert reply.status == 400
    assert reply.headers["content-type"] == "application/x-amz-json-1.1"
    assert reply.json["__type"] == "ParameterNotFound"
    assert reply.json["message"]
    created = wire.target(
        "ssm",
        "AmazonSSM.PutParameter",
        "1.1",
        {"Name": f"/{unique_name('wire')}", "Value": "x", "Type": "String"},
    )
    assert created.json["Version"] == 1


def test_json_timestamps_are_numbers(wire: RawConnection) -> None:
    name = f"/{unique_name('wire')}"
    wire.target(
        "ssm", "AmazonSSM.PutParameter", "1.1", {"Name": name, "Value": "x", "Type": "String"}
    )
    reply = wire.target("ssm", "AmazonSSM.GetParameter", "1.1", {"Name": name})
    assert isinstance(reply.json["Parameter"]["LastModifiedDate"], float)


@pytest.mark.parametrize("body", ["{", "[]", '"x"', '{"Name": 5}', '{"Name": ["/x"]}'])
def test_invalid_json_is_an_error(body: str, wire: RawConnection) -> None:
    headers = {
        "Authorization": authorization_header("ssm"),
        "Content-Type": "application/x-amz-json-1.1",
        "X-Amz-Target": "AmazonSSM.GetParameter",
    }
    reply = wire.send("POST", "/", body, headers)
    assert reply.status == 400
    assert reply.json["__type"] == "SerializationException"


def test_the_price_list_serves_other_regions(wire: RawConnection) -> None:
    """The region of the prices is in the filter, not in the signature."""
    filters = [{"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-east-1"}]
    body = {"ServiceCode": "AmazonEC2", "MaxResults": 1, "Filters": filters}
    headers = {
        "Authorization": authorization_header("pricing", "ap-south-1"),
        "Content-Type": "application/x-amz-json-1.1",
        "X-Amz-Target": "AWSPriceListService.GetProducts",
    }
    reply = wire.send("POST", "/", json.dumps(body), headers)
    (text,) = reply.json["PriceList"]
    assert json.loads(text)["product"]["attributes"]["regionCode"] == "us-east-1"


def test_sqs_returns_query_error_codes_in_a_header(wire: RawConnection) -> None:
    reply = wire.target(
        "sqs",
        "AmazonSQS.GetQueueUrl",
        "1.0",
        {"QueueName": "none"},
        X_Amzn_Query_Mode="true",
    )
    assert reply.status == 400
    assert reply.headers["content-type"] == "application/x-amz-json-1.0"
    old = "AWS.SimpleQueueService.NonExistentQueue;Sender"
    assert reply.headers["x-amzn-query-error"] == old
    assert reply.json["__type"].endswith("QueueDoesNotExist")


def test_the_host_of_a_queue_url_is_ignored(wire: RawConnection) -> None:
    name = unique_name("host")
    wire.target("sqs", "AmazonSQS.CreateQueue", "1.0", {"QueueName": name})
    elsewhere = f"https://sqs.us-east-1.amazonaws.com/111122223333/{name}"
    sent = {"QueueUrl": elsewhere, "MessageBody": "here"}
    assert wire.target("sqs", "AmazonSQS.SendMessage", "1.0", sent).status == 200
    got = wire.target("sqs", "AmazonSQS.ReceiveMessage", "1.0", {"QueueUrl": elsewhere})
    assert got.json["Messages"][0]["Body"] == "here"
    again = wire.target("sqs", "AmazonSQS.ReceiveMessage", "1.0", {"QueueUrl": elsewhere})
    assert again.body == b"{}"


@pytest.mark.parametrize(
    ("service", "headers", "kind"),
    [
        ("no-such-service", {"Content-Type": FORM}, "text/xml"),
        (
            "no-such-service",
            {"X-Amz-Target": "X.Y", "Content-Type": "application/x-amz-json-1.0"},
            "application/x-amz-json-1.0",
        ),
        ("no-such-service", {"Content-Type": "application/json"}, "application/json"),
        ("s3", {}, "text/xml"),
        ("sts", {"Content-Type": FORM}, "text/xml"),
    ],
)
def test_unknown_services_are_errors(
    service: str, headers: dict[str, str], kind: str, wire: RawConnection
) -> None:
    sent = {"Authorization": authorization_header(service), "Accept": "text/html", **headers}
    reply = wire.send("POST", "/", "Action=GetCallerIdentity", sent)
    assert reply.status == 400
    assert reply.headers["content-type"].startswith(kind)
    assert b"InvalidAction" in reply.body or reply.headers["x-amzn-errortype"] == "InvalidAction"
