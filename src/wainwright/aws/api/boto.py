"""AWS by way of boto3. Its own retries are off; those above the seam are ours (`middleware`).

boto3 blocks, so that calls run in threads of their own: a long poll holds one of them and nobody
else. Its errors end here and become AwsError.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, Final

import boto3
import botocore.exceptions
from botocore import xform_name
from botocore.config import Config
from botocore.parsers import ResponseParserError

from wainwright.aws.api.seam import AwsResponse, Params
from wainwright.errors import AwsError

MAX_WORKERS: Final = 32  # calls at the same time
CONNECT_TIMEOUT: Final = 5.0
READ_TIMEOUT: Final = 60.0  # three times the longest poll
PRICE_LIST_REGIONS: Final[Mapping[str, str]] = {
    "cn": "cn-northwest-1",
    "eu": "eu-central-1",
    "ap": "ap-south-1",
    "me": "eu-central-1",
    "af": "eu-central-1",
}
"""Where the price list is served, by the first part of the region; elsewhere in us-east-1."""

CREDENTIAL_ERRORS: Final = (
    botocore.exceptions.CredentialRetrievalError,
    botocore.exceptions.NoAuthTokenError,
    botocore.exceptions.NoCredentialsError,
    botocore.exceptions.PartialCredentialsError,
)
CONNECTION_ERRORS: Final = (
    botocore.exceptions.ConnectionError,
    botocore.exceptions.HTTPClientError,
    botocore.exceptions.IncompleteReadError,
    ResponseParserError,
)
TIMEOUT_ERRORS: Final = (
    botocore.exceptions.ConnectTimeoutError,
    botocore.exceptions.ReadTimeoutError,
)


class BotoSeam:
    """AWS by way of boto3; credentials are found as boto finds them."""

    def __init__(
        self, region: str, endpoint: str | None = None, workers: int = MAX_WORKERS
    ) -> None:
        self._region = region
        self._endpoint = endpoint
        self._config = Config(
            retries={"total_max_attempts": 1},
            max_pool_connections=workers,
            connect_timeout=CONNECT_TIMEOUT,
            read_timeout=READ_TIMEOUT,
            user_agent_extra="wainwright",
        )
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="aws")
        self._session: Any = None
        self._clients: dict[str, Any] = {}
        self._making = Lock()

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._ask, service, operation, params)

    def close(self) -> None:
        """Lets go of threads and connections; calls under way come to their end."""
        self._threads.shutdown(wait=True)
        for client in self._clients.values():
            client.close()

    def _ask(self, service: str, operation: str, params: Params) -> AwsResponse:
        method = getattr(self._client(service), xform_name(operation))
        try:
            response: AwsResponse = method(**params)
        except botocore.exceptions.ClientError as error:
            raise _client_error(error) from error
        except CREDENTIAL_ERRORS as error:
            raise AwsError("NoCredentials", str(error), 401) from error
        except CONNECTION_ERRORS as error:
            raise _connection_error(error) from error
        return {key: value for key, value in response.items() if key != "ResponseMetadata"}

    def _client(self, service: str) -> Any:
        # Made by the first who needs it: a session is not for several threads at once.
        with self._making:
            if self._session is None:
                self._session = boto3.session.Session()
            if service not in self._clients:
                self._clients[service] = self._session.client(
                    service,
                    region_name=self.region_of(service),
                    endpoint_url=self._endpoint,
                    config=self._config,
                )
            return self._clients[service]

    def region_of(self, service: str) -> str:
        if service != "pricing":
            return self._region
        return PRICE_LIST_REGIONS.get(self._region.partition("-")[0], "us-east-1")


def _client_error(error: botocore.exceptions.ClientError) -> AwsError:
    said = error.response.get("Error", {})
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
    return AwsError(str(said.get("Code", "Unknown")), str(said.get("Message", "")), int(status))


def _connection_error(error: Exception) -> AwsError:
    """No answer that could be read: the call may have been carried out all the same."""
    code = "RequestTimeout" if isinstance(error, TIMEOUT_ERRORS) else "ConnectionFailed"
    return AwsError(code, str(error), 0)
