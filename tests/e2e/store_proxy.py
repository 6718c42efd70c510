"""A proxy before an object store: it passes requests on, and a test changes what goes through."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

OWN_HEADERS = ("connection", "transfer-encoding", "server", "date")
DENIED = (b'<?xml version="1.0" encoding="UTF-8"?>'
          b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")


class StoreProxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.target = urlsplit(url).netloc
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def is_denied(self, method: str, path: str) -> bool:
        """Whether the caller gets 403 AccessDenied in place of the store's answer."""
        return False

    def changed(self, request: str, body: bytes) -> bytes:
        """What the caller gets for `body`; `request` is the path and the range asked for."""
        return body


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StoreProxy

    def pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.is_denied(self.command, self.path):
            self.send_response(403)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(DENIED)))
            self.end_headers()
            self.wfile.write(DENIED)
            return
        there = http.client.HTTPConnection(self.server.target)
        there.request(self.command, self.path, body, dict(self.headers))
        answer = there.getresponse()
        content = self.server.changed(f"{self.path} {self.headers.get('Range')}", answer.read())
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            # Not every store sends checksums that botocore compares: ours has to do.
            is_sum = name.lower().startswith("x-amz-checksum")
            if not is_sum and name.lower() not in OWN_HEADERS:
                self.send_header(name, value)
        if answer.getheader("Content-Length") is None:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        there.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass
