"""AWS through botocore. Its own retries are off; `middleware` retries instead.

botocore blocks, so calls run in a thread pool: a long poll occupies one thread and delays no other
call. Errors of botocore become AwsError here.
"""

import asyncio
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final

import botocore.exceptions
import botocore.session
from botocore import xform_name
from botocore.config import Config
from botocore.parsers import ResponseParserError

from wainwright.aws.api.services import AwsResponse, Params
from wainwright.daemon_threads import DaemonThreadPool
from wainwright.errors import AwsError

MAX_WORKERS: Final = 32  # concurrent calls
CONNECT_TIMEOUT: Final = 5.0
READ_TIMEOUT: Final = 60.0  # three times the duration of a long poll
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
    """AWS through botocore; credentials come from boto's default chain."""

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
        self._threads = DaemonThreadPool(workers, "aws")
        self._session: Any = None
        self._clients: dict[str, Any] = {}
        self._client_lock = Lock()

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, self._call_blocking, service, operation, params
        )

    def close(self) -> None:
        """Closes threads and connections after the calls in progress have ended."""
        self._threads.shutdown(wait=True)
        for client in self._clients.values():
            client.close()

    def _call_blocking(self, service: str, operation: str, params: Params) -> AwsResponse:
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
        # Created lazily, because loading a service model takes long, and under a lock: a
        # session is not thread-safe.
        with self._client_lock:
            if self._session is None:
                self._session = botocore.session.get_session()
            if service not in self._clients:
                self._clients[service] = self._session.create_client(
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
    details = error.response.get("Error", {})
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
    return AwsError(
        str(details.get("Code", "Unknown")), str(details.get("Message", "")), int(status)
    )


def _connection_error(error: Exception) -> AwsError:
    """No readable response: the call may have been carried out nevertheless."""
    code = "RequestTimeout" if isinstance(error, TIMEOUT_ERRORS) else "ConnectionFailed"
    return AwsError(code, str(error), 0)
