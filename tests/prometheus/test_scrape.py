"""A real Prometheus beside the master of a real job, over loopback with the job's token."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from free_ports import free_port
from job import GRACE_S, ROOT, Job, eventually

FOLDER = ROOT / "deploy" / "observability"
TWO = ["--standalone", "--nproc-per-node", "2"]
JOB = {"job": "paceline", "paceline_job": "JOB"}


class Server:
    """A Prometheus with the configuration that is shipped, which looks each second."""

    def __init__(self, port: int) -> None:
        self.api = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(f"{self.api}/{path}", timeout=GRACE_S) as answer:
                return json.load(answer)["data"]
        except (urllib.error.URLError, OSError):
            return None

    def value(self, query: str) -> float | None:
        found = self.ask("query?" + urllib.parse.urlencode({"query": query}))
        if not found or len(found["result"]) != 1:
            return None
        assert found["result"][0]["metric"].items() >= JOB.items(), found
        return float(found["result"][0]["value"][1])

    def until(self, query: str, least: float) -> float:
        def ask() -> tuple[float] | None:
            value = self.value(query)
            return (value,) if value is not None and value >= least else None
        (value,) = eventually(ask, f"{query} is {least} or more")
        return value


@contextmanager
def prometheus_of(job: Job, program: str, http_port: int) -> Iterator[Server]:
    folder = job.directory / "prometheus"
    folder.mkdir()
    config = (FOLDER / "prometheus.yml").read_text()
    for old, new in {"/data/runs/JOB": str(job.run_dir), "127.0.0.1:9464":
                     f"127.0.0.1:{http_port}", "15s": "1s"}.items():
        assert old in config
        config = config.replace(old, new)
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
        yield Server(port)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def bad_rules(server: Server) -> list[Any] | None:
    """Those whose evaluation failed; none before each was evaluated."""
    groups = (server.ask("rules") or {"groups": []})["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    if len(rules) < 9 or any(rule["health"] == "unknown" for rule in rules):
        return None
    return [rule for rule in rules if rule["health"] != "ok"]


def test_steps_restarts_and_a_lost_master_are_seen(job: Job, prometheus: str) -> None:
    http_port = free_port()
    job.env["PACELINE_NETWORK_HTTP_PORT"] = str(http_port)
    job.be_patient().start_steps(TWO, steps=1_000_000)
    ranks = job.until_stepping(2, beyond=5)
    with prometheus_of(job, prometheus, http_port) as server:
        server.until('up', 1)
        before = server.until('paceline_step', 5)
        server.until('paceline_step', before + 1)
        assert server.value('paceline_restarts_total') == 0
        os.kill(ranks[1]["pid"], signal.SIGKILL)
        server.until('paceline_restarts_total', 1)
        server.until('paceline_ranks{state="stepping"}', 2)
        server.until('paceline_rank_seconds{class="productive"}', 1)
        server.until('paceline:step:age_seconds', -60)  # a clock of whole seconds may lag
        server.until('count by (job, paceline_job) ({__name__=~"paceline_.*"}) <= 500', 1)
        (bad,) = eventually(
            lambda: None if (found := bad_rules(server)) is None else (found,),
            "each rule was evaluated")
        assert bad == []
        job.end()
        eventually(lambda: server.value('up') == 0, "the scrape finds no master")

