"""IAM: the calls about instance profiles, one method each."""

from collections.abc import Mapping

from wainwright.aws.seam import Answer, Params, Seam
from wainwright.aws.wire import Row, to_pairs
from wainwright.errors import AwsError

GONE = "NoSuchEntity"


class Iam:
    def __init__(self, seam: Seam) -> None:
        self._seam = seam

    async def _call(self, operation: str, params: Params) -> Answer:
        return await self._seam.call("iam", operation, params)

    async def get_instance_profile(self, name: str) -> Row | None:
        """None where there is none of that name."""
        try:
            answer = await self._call("GetInstanceProfile", {"InstanceProfileName": name})
        except AwsError as error:
            if error.code == GONE:
                return None
            raise
        found: Row = answer["InstanceProfile"]
        return found

    async def list_instance_profiles(self, path: str) -> list[Row]:
        """Those whose path begins so."""
        rows: list[Row] = []
        params: dict[str, object] = {"PathPrefix": path}
        while True:
            answer = await self._call("ListInstanceProfiles", params)
            rows.extend(answer.get("InstanceProfiles") or ())
            if not answer.get("IsTruncated") or not answer.get("Marker"):
                return rows
            params = {**params, "Marker": answer["Marker"]}

    async def create_instance_profile(self, name: str, path: str, tags: Mapping[str, str]) -> None:
        params = {"InstanceProfileName": name, "Path": path, "Tags": to_pairs(tags)}
        await self._call("CreateInstanceProfile", params)

    async def tag_instance_profile(self, name: str, tags: Mapping[str, str]) -> None:
        params = {"InstanceProfileName": name, "Tags": to_pairs(tags)}
        await self._call("TagInstanceProfile", params)

    async def add_role(self, name: str, role: str) -> None:
        params = {"InstanceProfileName": name, "RoleName": role}
        await self._call("AddRoleToInstanceProfile", params)

    async def remove_role(self, name: str, role: str) -> None:
        """One that is not there any more is no error."""
        params = {"InstanceProfileName": name, "RoleName": role}
        await self._unless_gone("RemoveRoleFromInstanceProfile", params)

    async def delete_instance_profile(self, name: str) -> None:
        """One that is gone already is no error."""
        await self._unless_gone("DeleteInstanceProfile", {"InstanceProfileName": name})

    async def _unless_gone(self, operation: str, params: Params) -> None:
        try:
            await self._call(operation, params)
        except AwsError as error:
            if error.code != GONE:
                raise
