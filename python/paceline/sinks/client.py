"""A connection to the receiver, for sinks and for the stream `flight://`.

    client = Client("grpc://host:8815/clicks", {"token": "…"})
    client.act("last", stream=client.stream, app="etl")
"""

import ipaddress
import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from paceline.errors import DataError
from paceline.receiver.refusal import parsed
from paceline.sinks.listener import strangers_at

TOKEN_VARIABLE = "PACELINE_SINK_TOKEN"
SCHEMES = ("flight", "flight+tls", "grpc", "grpc+tls")
_CALL_SECONDS = 60.0
# A DoPut has no deadline, because a full disk makes it wait. gRPC's servers refuse pings that are
# more frequent than every 5 minutes.
_KEEPALIVE = [("grpc.keepalive_time_ms", 330_000), ("grpc.keepalive_timeout_ms", 20_000)]


class Client:
    """Calls of the sink protocol. The stream is the URL's path.

    TLS is used by a scheme that ends in `+tls`, by `ca` among the settings (a file of PEM), and
    always for addresses that are not loopback.
    """

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        try:
            import pyarrow.flight
        except ImportError as error:
            raise DataError(
                what="the receiver cannot be reached",
                where=url,
                why="the package pyarrow is not installed",
                fix="pip install 'paceline[flight]'",
            ) from error
        self.flight: Any = pyarrow.flight
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:  # a number that is no port
            port = None
        self.stream = parts.path.strip("/")
        self.where = f"the stream {self.stream} at {parts.netloc}"
        token = settings.get("token") or os.environ.get(TOKEN_VARIABLE, "")
        why = ""
        if parts.scheme not in SCHEMES or not port or not self.stream:
            why = "it has to be grpc://HOST:PORT/STREAM, with a port of 1 to 65535"
        elif parts.username or parts.password:
            why = "it has a user name or a password, and a URL is shown in logs and on pages"
        elif not token:
            why = f"there is no token: neither in the secrets, nor in {TOKEN_VARIABLE}"
        if why:
            raise DataError(
                what="this URL is no stream of a receiver",
                where=f"{parts.scheme}://{parts.hostname}:{port or '?'}/{self.stream}",
                why=why,
                fix='grpc://host:8815/clicks, and secrets= the receiver\'s file token.toml',
            )
        is_tls = (parts.scheme.endswith("+tls") or "ca" in settings
                  or not _is_loopback(parts.hostname or ""))
        options: dict[str, Any] = {"generic_options": _KEEPALIVE}
        if "ca" in settings:
            with open(settings["ca"], "rb") as file:
                options["tls_root_certs"] = file.read()
        self._client: Any = pyarrow.flight.connect(
            f"{'grpc+tls' if is_tls else 'grpc'}://{parts.hostname}:{port}", **options)
        self._port = None if is_tls else port
        self._headers = [(b"authorization", f"Bearer {token}".encode())]

    def act(
        self, action: str, seconds: float = _CALL_SECONDS, **body: object
    ) -> dict[str, Any]:
        """The answer of a DoAction."""
        call = self.flight.Action(action, json.dumps(body).encode())
        with self.told():
            [result] = self._client.do_action(call, self._options(seconds))
            return json.loads(result.body.to_pybytes())

    def put(self, command: Mapping[str, str], schema: Any) -> tuple[Any, Any]:
        """Writer and metadata reader of a DoPut."""
        descriptor = self.flight.FlightDescriptor.for_command(json.dumps(command).encode())
        return self._client.do_put(descriptor, schema, self._options(None))

    def get(self, partition: int, offset: int, seconds: float) -> Any:
        """A reader of the committed rows from `offset` on, for at most so long."""
        ticket = {"stream": self.stream, "partition": partition, "offset": offset}
        return self._client.do_get(
            self.flight.Ticket(json.dumps(ticket).encode()), self._options(seconds))

    def told(self) -> "_Refusals":
        """Within it, what the receiver refuses is raised as its error in four parts."""
        return _Refusals(self.flight)

    def close(self) -> None:
        self._client.close()

    def _options(self, seconds: float | None) -> Any:
        # Each call, because gRPC connects again by itself when the receiver has ended.
        if self._port is not None and (strangers := strangers_at(self._port)):
            raise DataError(
                what="another user listens where the receiver should",
                where=self.where,
                why=f"the socket belongs to the user with the number {min(strangers)}, and the "
                "token would be sent to it readable",
                fix="start the receiver as this user or as root, or use TLS (flight+tls://)",
            )
        return self.flight.FlightCallOptions(timeout=seconds, headers=self._headers)


class _Refusals:
    def __init__(self, flight: Any) -> None:
        self._flight = flight

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, self._flight.FlightError) and (found := parsed(str(error))):
            raise found from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
