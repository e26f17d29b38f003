"""What the pods may reach, as far as the template of the NetworkPolicy states addresses."""

import re
from ipaddress import ip_network
from pathlib import Path

TEMPLATE = Path(__file__).parents[3] / "deploy" / "chart" / "templates" / "networkpolicy.yaml"


def test_credentials_come_over_ipv4_and_ipv6() -> None:
    """Pods of a cluster have addresses of one of them; each agent has one of each."""
    stated = re.findall(r"cidr: (\S+)", TEMPLATE.read_text("utf-8"))
    assert stated == [
        *("169.254.170.23/32", "fd00:ec2::23/128"),
        *("169.254.169.254/32", "fd00:ec2::254/128"),
    ]
    assert all(ip_network(each).num_addresses == 1 for each in stated)
