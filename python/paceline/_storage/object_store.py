"""A rank's own requests to an object store: a few small objects, through an agent's S3 client.

The client is a process of its own, so boto3 is not loaded into the training. Its requests are
described in docs/formats/s3_client.md.
"""

import json
import os
import subprocess
import sys
from typing import IO, cast

Fields = dict[str, object]

_ATTEMPTS = "2"  # tries of a request: a starting rank does not wait long
_TEXT_BYTES_MAX = 4096


class StoreError(OSError):
    """The store does not answer, or refuses. `kind` is `away`, `denied` or another kind of
    docs/formats/s3_client.md.
    """

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


class ObjectStore:
    """The objects below `s3://BUCKET/PREFIX`.

    Not thread-safe. Only `end` may be called from another thread.

    >>> store = ObjectStore("s3://bucket/runs/gpt")
    >>> store.put_new("note", "text")
    True
    """

    def __init__(self, place: str) -> None:
        self._bucket, _, prefix = place.removeprefix("s3://").partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._client = subprocess.Popen(
            [sys.executable, "-P", "-m", "paceline._storage.s3_client"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"AWS_MAX_ATTEMPTS": _ATTEMPTS, **os.environ},
            process_group=0,  # Ctrl-C must reach the training only
        )
        self._to = cast("IO[bytes]", self._client.stdin)
        self._from = cast("IO[bytes]", self._client.stdout)

    def entries(self) -> dict[str, int]:
        """The names directly below the prefix, each with the time of its last change in ns.

        A folder has the time 0.
        """
        answer = self._ask({"op": "list", "key": self._prefix})
        found = cast("list[dict[str, object]]", answer["entries"])
        return {str(one["name"]): cast("int", one.get("changed_ns", 0)) for one in found}

    def text(self, name: str) -> str:
        """The content of a small object. StoreError `not_found` if there is none."""
        keys, limit = [self._prefix + name], _TEXT_BYTES_MAX
        sizes = self._ask({"op": "get_all", "keys": keys, "bytes_max": limit})["sizes"]
        return self._from.read(cast("list[int]", sizes)[0]).decode("utf-8", "replace")

    def put_new(self, name: str, text: str) -> bool:
        """Create a small object. False if it already exists."""
        body = text.encode()
        request: Fields = {"op": "put", "key": self._prefix + name, "new": True}
        try:
            self._ask({**request, "bytes": len(body)}, body)
        except StoreError as error:
            if error.kind != "exists":
                raise
            return False
        return True

    def end(self) -> None:
        """End the client. A request in progress fails."""
        self._client.kill()
        self._client.wait()

    def _ask(self, request: Fields, body: bytes = b"") -> Fields:
        try:
            line = json.dumps({"bucket": self._bucket, **request}).encode()
            self._to.write(line + b"\n" + body)
            self._to.flush()
            answer: object = json.loads(self._from.readline())
        except (OSError, ValueError) as error:
            raise StoreError("away", "the S3 client process has ended") from error
        fields = cast("Fields", answer)
        if "error" in fields:
            raise StoreError(str(fields["error"]), str(fields.get("message", "")))
        return fields
