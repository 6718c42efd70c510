"""An S3 server of a test's own: moto, in this process, on loopback."""

from __future__ import annotations

import boto3
from free_ports import free_port
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

BUCKET = "paceline-e2e"


def environment_for(url: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_MAX_ATTEMPTS": "2",
    }


class ObjectStore:
    """Started at once; `stop` and `start` take it away and bring it back with all its objects."""

    def __init__(self) -> None:
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        # What moto keeps is the process's, and would outlive a test.
        s3_backends.reset()
        self.start()
        self.client().create_bucket(Bucket=BUCKET)

    def start(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", self._port, verbose=False)
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def environment(self) -> dict[str, str]:
        return environment_for(self.url)

    def client(self):
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )

    def objects(self) -> list[str]:
        found = self.client().list_objects_v2(Bucket=BUCKET)
        return [one["Key"] for one in found.get("Contents", [])]
