"""EKS clusters, as far as nodes need them: version, endpoint, certificate, service CIDR.

A cluster has no control plane unless `seed` gets the endpoint of one. It is ACTIVE at once. Its
certificate is random unless a real one is given.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from wainwright.emulator.api_conventions import make_arn, new_resource_id, require_text, to_datetime
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.describe_requests import ServicePagination
from wainwright.emulator.services.public_images import KUBERNETES_VERSIONS
from wainwright.errors import AwsError

INVALID_PARAMETER: Final = "InvalidParameterException"
CLUSTER_NAME: Final = re.compile(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}", re.ASCII)
SERVICE_CIDR: Final = "10.100.0.0/16"
CLUSTER_PAGINATION: Final = ServicePagination(
    size_param="maxResults",
    token_param="nextToken",
    max_size=100,
    default_size=100,
    invalid_size_code=INVALID_PARAMETER,
    invalid_token_code=INVALID_PARAMETER,
)


class EksCluster(msgspec.Struct, kw_only=True):
    name: str
    version: str
    created: float
    endpoint: str
    certificate: str
    """Base64, as the API has it."""
    role: str
    subnets: list[str]
    groups: list[str] = []
    own_group: str
    vpc: str | None = None
    family: str = "ipv4"
    cidr: str = SERVICE_CIDR
    issuer: str = ""
    tags: dict[str, str] = {}


class EksState(msgspec.Struct, kw_only=True):
    clusters: dict[str, EksCluster] = {}


class Eks:
    """`vpc_of` returns the VPC of a subnet, or None where it is unknown."""

    name = "eks"

    def __init__(
        self, context: AccountContext, vpc_of: Callable[[str], str | None] | None = None
    ) -> None:
        self.state = EksState()
        self._context = context
        self._vpc_of = vpc_of

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "CreateCluster": self.create_cluster,
            "DescribeCluster": self.describe_cluster,
            "ListClusters": self.list_clusters,
            "DeleteCluster": self.delete_cluster,
            "UpdateClusterVersion": self.update_cluster_version,
        }

    def seed(
        self,
        name: str,
        *,
        subnets: Sequence[str] = (),
        groups: Sequence[str] = (),
        version: str | None = None,
        control_plane: tuple[str, str] | None = None,
    ) -> EksCluster:
        """A cluster of the account; `control_plane` is endpoint and base64 certificate."""
        self.create_cluster(
            {
                "name": name,
                "roleArn": self._iam_arn(f"role/{name}-cluster"),
                "resourcesVpcConfig": {
                    "subnetIds": list(subnets),
                    "securityGroupIds": list(groups),
                },
                **({} if version is None else {"version": version}),
            }
        )
        cluster = self.state.clusters[name]
        if control_plane is not None:
            cluster.endpoint, cluster.certificate = control_plane
        return cluster

    def create_cluster(self, params: Params) -> Response:
        name = require_text(params, "name", error_code=INVALID_PARAMETER)
        if not CLUSTER_NAME.fullmatch(name):
            raise AwsError(INVALID_PARAMETER, f"{name!r} is not a name for a cluster.")
        if name in self.state.clusters:
            raise AwsError(
                "ResourceInUseException", f"Cluster already exists with name: {name}", 409
            )
        network = params.get("resourcesVpcConfig")
        if not isinstance(network, Mapping):
            raise AwsError(
                INVALID_PARAMETER, "The request must contain the parameter resourcesVpcConfig."
            )
        cluster = self._build_cluster(name, params, network)
        self.state.clusters[name] = cluster
        return {"cluster": self._view(cluster)}

    def _build_cluster(self, name: str, params: Params, network: Mapping[str, Any]) -> EksCluster:
        role = require_text(params, "roleArn", error_code=INVALID_PARAMETER)
        version = _check_version(params.get("version") or KUBERNETES_VERSIONS[-1])
        family, cidr = _service_network(params.get("kubernetesNetworkConfig") or {})
        subnets = list(network.get("subnetIds") or ())
        return EksCluster(
            name=name,
            version=version,
            created=self._context.now(),
            endpoint=f"https://{self._random_hex(16)}.gr7.{self._context.region}.eks.amazonaws.com",
            certificate=_encode_certificate(self._context.random.randbytes(600)),
            role=role,
            subnets=subnets,
            groups=list(network.get("securityGroupIds") or ()),
            own_group=new_resource_id(self._context, "sg"),
            vpc=self._vpc_of(subnets[0]) if self._vpc_of is not None and subnets else None,
            family=family,
            cidr=cidr,
            issuer=self._random_hex(16),
            tags=dict(params.get("tags") or {}),
        )

    def describe_cluster(self, params: Params) -> Response:
        return {"cluster": self._view(self._get_cluster(params))}

    def list_clusters(self, params: Params) -> Response:
        rows, token = CLUSTER_PAGINATION.paginate(sorted(self.state.clusters), params)
        response: Response = {"clusters": rows}
        return response if token is None else response | {"nextToken": token}

    def delete_cluster(self, params: Params) -> Response:
        cluster = self._get_cluster(params)
        del self.state.clusters[cluster.name]
        return {"cluster": self._view(cluster) | {"status": "DELETING"}}

    def update_cluster_version(self, params: Params) -> Response:
        """One minor version at a time, finished at once."""
        cluster = self._get_cluster(params)
        version = _check_version(require_text(params, "version", error_code=INVALID_PARAMETER))
        if KUBERNETES_VERSIONS.index(version) != KUBERNETES_VERSIONS.index(cluster.version) + 1:
            raise AwsError(
                INVALID_PARAMETER,
                f"Unsupported Kubernetes minor version update from {cluster.version} to {version}",
            )
        cluster.version = version
        return {
            "update": {
                "id": self._random_hex(16).lower(),
                "status": "Successful",
                "type": "VersionUpdate",
                "params": [{"type": "Version", "value": version}],
                "createdAt": to_datetime(self._context.now()),
                "errors": [],
            }
        }

    def _get_cluster(self, params: Params) -> EksCluster:
        name = require_text(params, "name", error_code=INVALID_PARAMETER)
        cluster = self.state.clusters.get(name)
        if cluster is None:
            raise AwsError("ResourceNotFoundException", f"No cluster found for name: {name}.", 404)
        return cluster

    def _view(self, cluster: EksCluster) -> dict[str, Any]:
        region = self._context.region
        network: dict[str, Any] = {
            "subnetIds": list(cluster.subnets),
            "securityGroupIds": list(cluster.groups),
            "clusterSecurityGroupId": cluster.own_group,
            "endpointPublicAccess": True,
            "endpointPrivateAccess": False,
            "publicAccessCidrs": ["0.0.0.0/0"],
        }
        field = "serviceIpv6Cidr" if cluster.family == "ipv6" else "serviceIpv4Cidr"
        return {
            "name": cluster.name,
            "arn": make_arn("eks", region, self._context.account, f"cluster/{cluster.name}"),
            "createdAt": to_datetime(cluster.created),
            "version": cluster.version,
            "endpoint": cluster.endpoint,
            "roleArn": cluster.role,
            "resourcesVpcConfig": network | ({"vpcId": cluster.vpc} if cluster.vpc else {}),
            "kubernetesNetworkConfig": {field: cluster.cidr, "ipFamily": cluster.family},
            "identity": {
                "oidc": {"issuer": f"https://oidc.eks.{region}.amazonaws.com/id/{cluster.issuer}"}
            },
            "status": "ACTIVE",
            "certificateAuthority": {"data": cluster.certificate},
            "platformVersion": "eks.1",
            "tags": dict(cluster.tags),
            "health": {"issues": []},
            "accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"},
        }

    def _random_hex(self, size: int) -> str:
        return self._context.random.randbytes(size).hex().upper()

    def _iam_arn(self, resource: str) -> str:
        return make_arn(
            "iam", self._context.region, self._context.account, resource, global_service=True
        )


def _check_version(version: str) -> str:
    if version not in KUBERNETES_VERSIONS:
        raise AwsError(INVALID_PARAMETER, f"unsupported Kubernetes version {version}")
    return version


def _service_network(network: Mapping[str, Any]) -> tuple[str, str]:
    """IP family and service CIDR; the caller cannot choose the CIDR for IPv6."""
    family = network.get("ipFamily") or "ipv4"
    if family not in ("ipv4", "ipv6"):
        raise AwsError(INVALID_PARAMETER, f"ipFamily is ipv4 or ipv6, not {family!r}.")
    cidr = network.get("serviceIpv4Cidr")
    if family == "ipv6":
        if cidr:
            raise AwsError(INVALID_PARAMETER, "serviceIpv4Cidr can not be set for an ipv6 cluster.")
        return family, "fd30:1c53:5f8a::/108"
    return family, cidr or SERVICE_CIDR


def _encode_certificate(content: bytes) -> str:
    lines = b64encode(content).decode()
    body = "\n".join(lines[start : start + 64] for start in range(0, len(lines), 64))
    return b64encode(
        f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n".encode()
    ).decode()
