"""Parameters of SSM."""

from tests.contract.case import case, fresh_name
from tests.contract.doors import Door, refusal

PUBLIC = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended"


@case()
def a_parameter_comes_back_as_it_was_put(door: Door) -> None:
    name = f"/{fresh_name('mine')}/value"
    door.ask("ssm", "PutParameter", Name=name, Value="a <b> & c", Type="String")
    found = door.ask("ssm", "GetParameter", Name=name)["Parameter"]
    assert (found["Value"], found["Type"], found["Version"]) == ("a <b> & c", "String", 1)


@case()
def a_parameter_is_not_overwritten_unless_asked(door: Door) -> None:
    name = f"/{fresh_name('mine')}/value"
    door.ask("ssm", "PutParameter", Name=name, Value="one", Type="String")
    again = {"Name": name, "Value": "two", "Type": "String"}
    assert refusal(door, "ssm", "PutParameter", **again) == ("ParameterAlreadyExists", 400)
    door.ask("ssm", "PutParameter", Overwrite=True, **again)
    assert door.ask("ssm", "GetParameter", Name=name)["Parameter"]["Value"] == "two"


@case()
def a_parameter_that_does_not_exist_is_an_error(door: Door) -> None:
    assert refusal(door, "ssm", "GetParameter", Name="/none") == ("ParameterNotFound", 400)


@case(moto_wrong="it has none of the images for EKS")
def the_images_of_eks_are_public_parameters(door: Door) -> None:
    identity = door.ask("ssm", "GetParameter", Name=f"{PUBLIC}/image_id")["Parameter"]["Value"]
    wanted = [{"Name": "image-id", "Values": [identity]}]
    (image,) = door.ask("ec2", "DescribeImages", Filters=wanted)["Images"]
    assert image["Architecture"] == "x86_64"
    assert "1.33" in image["Name"]
