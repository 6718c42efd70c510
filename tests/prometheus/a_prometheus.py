"""A Prometheus that a test starts."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from free_ports import free_port
from job import GRACE_S, ROOT

FOLDER = ROOT / "deploy" / "observability"


class Server:
    """What a Prometheus on this port answers."""

    def __init__(self, port: int) -> None:
        self.api = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(f"{self.api}/{path}", timeout=GRACE_S) as answer:
                return json.load(answer)["data"]
        except (urllib.error.URLError, OSError):
            return None

    def results(self, query: str) -> list[Any]:
        found = self.ask("query?" + urllib.parse.urlencode({"query": query}))
        return found["result"] if found else []


@contextmanager
def running(program: str, folder: Path, config: str) -> Iterator[int]:
    """A Prometheus with this configuration and the rules that are shipped; gives its port."""
    folder.mkdir()
    (folder / "prometheus.yml").write_text(config)
    for rules in ("rules.yml", "alerts.yml"):
        (folder / rules).write_text((FOLDER / rules).read_text())
    port = free_port()
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(
            [program, f"--config.file={folder}/prometheus.yml",
             f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"],
            stdout=log, stderr=log)
    try:
        yield port
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
