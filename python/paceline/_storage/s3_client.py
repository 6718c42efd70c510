"""The S3 client of an agent, in a process of its own: `python -m paceline._storage.s3_client`.

It reads requests from standard input and writes answers to standard output, one at a time;
docs/formats/s3_client.md describes them. boto3 finds credentials, regions and endpoints as usual:
in the environment, in ~/.aws, and from the host's or pod's role.

The process ends when its input ends.
"""

import contextlib
import json
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, BinaryIO
from urllib.parse import urlsplit

Fields = dict[str, Any]

# Bytes of an upload's part and of a ranged read. S3 takes parts of 5 MiB or more.
PART_BYTES = 8 << 20
PARTS_MAX = 9_000  # S3 allows 10,000
STREAMS = 4  # parts in transfer at once; each keeps its bytes in memory
SMALL_STREAMS = 16  # small objects in transfer at once
ATTEMPTS = 6  # tries of a request, with growing pauses of at most 20 s between them
CONNECT_SECONDS = 10
READ_SECONDS = 60
FRAME_END = 0
FRAME_ABORT = 0xFFFFFFFF


class ClientGone(Exception):
    """The process that sent the requests is gone."""


@dataclass
class Wrong(Exception):
    """A request failed: the error's kind, and one sentence."""

    kind: str
    message: str


def make_client() -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise Wrong(
            "denied",
            f"checkpoints in s3:// need boto3 ({error}); pip install 'paceline[s3]' into the "
            f"environment of {sys.executable}",
        ) from error
    # A number of attempts set by the user wins.
    is_set = "AWS_MAX_ATTEMPTS" in os.environ
    retries: Any = {"mode": "standard", **({} if is_set else {"total_max_attempts": ATTEMPTS})}
    client: Any = boto3.Session().client(
        "s3",
        config=Config(
            retries=retries,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            max_pool_connections=STREAMS + SMALL_STREAMS,
        ),
    )
    check_endpoint(client.meta.endpoint_url)
    return client


def check_endpoint(url: str) -> None:
    """Refuse an endpoint that would send a training's state unencrypted over a network."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        is_loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if parts.scheme != "https" and not is_loopback:
        raise Wrong("denied", f"the endpoint {url} is not encrypted; use https")


def kind_of(error: Exception) -> str:
    """The kind of an error of botocore's, which tells the agent how to react."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        name = type(error).__name__
        refusals = ("Credential", "NoRegion", "Profile", "SSO", "Token")
        return "denied" if any(word in name for word in refusals) else "away"
    code = str(response.get("Error", {}).get("Code", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code == "NoSuchBucket":
        return "denied"  # a wrong bucket name must not look like an empty store
    if code in ("NoSuchKey", "NotFound", "404") or status == 404:
        return "not_found"
    if code in ("PreconditionFailed", "ConditionalRequestConflict") or status in (409, 412):
        return "exists"
    if status == 507 or "Quota" in code or "StorageFull" in code:
        return "full"
    if status in (400, 401, 403) and code not in ("RequestTimeout", "RequestTimeTooSkewed"):
        return "denied"
    return "away"


class Server:
    def __init__(self, reader: BinaryIO, writer: BinaryIO, client: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._client = client
        self._pool = ThreadPoolExecutor(STREAMS, thread_name_prefix="s3")
        self._small = ThreadPoolExecutor(SMALL_STREAMS, thread_name_prefix="s3-small")

    def serve(self) -> None:
        verbs: dict[str, Callable[[Fields], Fields]] = {
            "put": self._put,
            "exchange": self._exchange,
            "write": self._write,
            "copy": self._copy,
            "stat": self._stat,
            "list": self._list,
            "remove": self._remove,
            "sweep": self._sweep,
        }
        while line := self._reader.readline():
            request: Fields = json.loads(line)
            try:
                if request["op"] == "get":
                    self._get(request)
                elif request["op"] == "get_all":
                    self._get_all(request)
                else:
                    self._answer(verbs[request["op"]](request))
            except ClientGone:
                return
            except Wrong as wrong:
                self._answer({"error": wrong.kind, "message": wrong.message})
            except Exception as error:  # botocore raises many types, and none may end the process
                message = f"s3://{request['bucket']}/{request.get('key', '')}: {error}"
                self._answer({"error": kind_of(error), "message": message})

    def _answer(self, answer: Fields) -> None:
        self._writer.write(json.dumps(answer).encode() + b"\n")
        self._writer.flush()

    def _read(self, count: int) -> bytes:
        data = self._reader.read(count)
        if len(data) != count:
            raise ClientGone
        return data

    # ---- writing ----

    def _put(self, request: Fields) -> Fields:
        body = self._read(request["bytes"])
        condition = {"IfNoneMatch": "*"} if request["new"] else {}
        self._client.put_object(
            Bucket=request["bucket"], Key=request["key"], Body=body, **condition
        )
        return {}

    def _exchange(self, request: Fields) -> Fields:
        """Replace a small object if its content is still `from`; else the error is `exists`."""
        body = self._read(request["bytes"])
        bucket, key = request["bucket"], request["key"]
        found = self._client.get_object(Bucket=bucket, Key=key)
        if found["Body"].read() != request["from"].encode():
            raise Wrong("exists", f"s3://{bucket}/{key} was changed by another process")
        self._client.put_object(Bucket=bucket, Key=key, Body=body, IfMatch=found["ETag"])
        return {}

    def _write(self, request: Fields) -> Fields:
        size: int = request["bytes"]
        part_bytes = max(PART_BYTES, -(-size // PARTS_MAX))
        frames = Frames(self._read)
        upload = None
        try:
            if size <= part_bytes:
                body = b"".join(frames)
                self._client.put_object(Bucket=request["bucket"], Key=request["key"], Body=body)
            else:
                upload = Upload(self._client, self._pool, request["bucket"], request["key"])
                upload.send(frames, part_bytes)
        except Aborted:
            if upload is not None:
                upload.abort()
            raise Wrong("invalid", "the writing process aborted the upload") from None
        except Exception:
            for _ in frames:  # read the rest of this request's frames
                pass
            if upload is not None:
                upload.abort()
            raise
        return {}

    def _copy(self, request: Fields) -> Fields:
        """Copy an object within the store, in one request, or in parts if it is large."""
        source = {"Bucket": request["bucket"], "Key": request["from"]}
        self._client.copy(source, request["bucket"], request["key"])
        return {}

    # ---- reading ----

    def _get(self, request: Fields) -> None:
        begin, size = request["offset"], request["bytes"]
        end = begin + size
        ranges = [(at, min(at + PART_BYTES, end)) for at in range(begin, end, PART_BYTES)]

        def fetch(part: tuple[int, int]) -> bytes:
            answer = self._client.get_object(
                Bucket=request["bucket"], Key=request["key"], Range=f"bytes={part[0]}-{part[1] - 1}"
            )
            return answer["Body"].read()

        parts = list(self._pool.map(fetch, ranges))
        self._answer({"bytes": sum(len(part) for part in parts)})
        for part in parts:
            self._writer.write(part)
        self._writer.flush()

    def _get_all(self, request: Fields) -> None:
        def fetch(key: str) -> bytes:
            answer = self._client.get_object(Bucket=request["bucket"], Key=key)
            if answer["ContentLength"] > request["bytes_max"]:
                raise Wrong("too_large", f"{key} is too large")
            return answer["Body"].read()

        bodies = list(self._small.map(fetch, request["keys"]))
        self._answer({"sizes": [len(body) for body in bodies]})
        for body in bodies:
            self._writer.write(body)
        self._writer.flush()

    def _stat(self, request: Fields) -> Fields:
        found = self._client.head_object(Bucket=request["bucket"], Key=request["key"])
        return {"bytes": found["ContentLength"]}

    def _list(self, request: Fields) -> Fields:
        prefix: str = request["key"]
        entries: list[Fields] = []
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=request["bucket"], Prefix=prefix, Delimiter="/"
        )
        for page in pages:
            for one in page.get("CommonPrefixes", []):
                entries.append({"name": one["Prefix"][len(prefix) :].rstrip("/"), "bytes": -1})
            for one in page.get("Contents", []):
                entries.append(
                    {
                        "name": one["Key"][len(prefix) :],
                        "bytes": one["Size"],
                        "changed_ns": int(one["LastModified"].timestamp() * 1e9),
                    }
                )
        return {"entries": [entry for entry in entries if entry["name"]]}

    # ---- removing ----

    def _remove(self, request: Fields) -> Fields:
        self._client.delete_object(Bucket=request["bucket"], Key=request["key"])
        return {}

    def _sweep(self, request: Fields) -> Fields:
        """Abort unfinished uploads of dead writers: they cost money and are not listed."""
        pages = self._client.get_paginator("list_multipart_uploads").paginate(
            Bucket=request["bucket"], Prefix=request["key"]
        )
        for page in pages:
            for one in page.get("Uploads", []):
                self._client.abort_multipart_upload(
                    Bucket=request["bucket"], Key=one["Key"], UploadId=one["UploadId"]
                )
        return {}


class Aborted(Exception):
    """The writer found its data damaged and aborts the upload."""


class Frames:
    """The bytes of an upload as they arrive. May be iterated again; the end is read only once."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._is_over = False

    def __iter__(self) -> Iterator[bytes]:
        while not self._is_over:
            (count,) = struct.unpack("<I", self._read(4))
            if count in (FRAME_END, FRAME_ABORT):
                self._is_over = True
                if count == FRAME_ABORT:
                    raise Aborted
                return
            yield self._read(count)


class Upload:
    """A multipart upload. Some parts are sent while the next ones are read."""

    def __init__(self, client: Any, pool: ThreadPoolExecutor, bucket: str, key: str) -> None:
        self._client = client
        self._pool = pool
        self._place = {"Bucket": bucket, "Key": key}
        self._id: str = client.create_multipart_upload(**self._place)["UploadId"]
        self._room = threading.Semaphore(STREAMS)
        self._parts: list[Future[Fields]] = []

    def send(self, frames: Frames, part_bytes: int) -> None:
        held = bytearray()
        for frame in frames:
            held += frame
            while len(held) >= part_bytes:
                self._add(bytes(held[:part_bytes]))
                del held[:part_bytes]
        if held:
            self._add(bytes(held))
        parts = [part.result() for part in self._parts]
        self._client.complete_multipart_upload(
            **self._place, UploadId=self._id, MultipartUpload={"Parts": parts}
        )

    def _add(self, body: bytes) -> None:
        self._room.acquire()
        number = len(self._parts) + 1
        for part in self._parts:
            if part.done() and part.exception() is not None:
                self._room.release()
                part.result()  # raises: the upload has failed
        self._parts.append(self._pool.submit(self._send_part, number, body))

    def _send_part(self, number: int, body: bytes) -> Fields:
        try:
            answer = self._client.upload_part(
                **self._place, UploadId=self._id, PartNumber=number, Body=body
            )
            return {"PartNumber": number, "ETag": answer["ETag"]}
        finally:
            self._room.release()

    def abort(self) -> None:
        for part in self._parts:
            part.cancel()
        for part in self._parts:
            if not part.cancelled():
                part.exception()
        try:
            self._client.abort_multipart_upload(**self._place, UploadId=self._id)
        except Exception:  # `sweep` removes it later
            return


class Refusing:
    """Replaces a client that could not be made: every request gets its error as the answer."""

    def __init__(self, wrong: Wrong) -> None:
        self._wrong = wrong

    def __getattr__(self, name: str) -> Any:
        raise self._wrong


def main() -> None:
    reader, writer = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # a print must not get into the answers
    try:
        client: Any = make_client()
    except Wrong as wrong:
        client = Refusing(wrong)
    except Exception as error:  # such as a damaged ~/.aws/config
        client = Refusing(Wrong("denied", f"the S3 client cannot be created: {error}"))
    with contextlib.suppress(ClientGone, BrokenPipeError):
        Server(reader, writer, client).serve()
    os._exit(0)  # does not wait for requests in progress


if __name__ == "__main__":
    main()
