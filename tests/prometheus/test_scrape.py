"""A real Prometheus beside the master of a real job, over loopback with the job's token."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from a_prometheus import FOLDER, Server, running
from free_ports import free_port
from job import Job, eventually

TWO = ["--standalone", "--nproc-per-node", "2"]
JOB = {"job": "paceline", "paceline_job": "JOB"}


class JobServer(Server):
    """Its configuration is the one that is shipped, and it looks each second."""

    def value(self, query: str) -> float | None:
        found = self.results(query)
        if len(found) != 1:
            return None
        assert found[0]["metric"].items() >= JOB.items(), found
        return float(found[0]["value"][1])

    def until(self, query: str, least: float) -> float:
        def ask() -> tuple[float] | None:
            value = self.value(query)
            return (value,) if value is not None and value >= least else None
        (value,) = eventually(ask, f"{query} is {least} or more")
        return value


@contextmanager
def prometheus_of(job: Job, program: str, http_port: int) -> Iterator[JobServer]:
    config = (FOLDER / "prometheus.yml").read_text()
    for old, new in {"/data/runs/JOB": str(job.run_dir), "127.0.0.1:9464":
                     f"127.0.0.1:{http_port}", "15s": "1s"}.items():
        assert old in config
        config = config.replace(old, new)
    with running(program, job.directory / "prometheus", config) as port:
        yield JobServer(port)


def bad_rules(server: Server) -> list[Any] | None:
    """Those whose evaluation failed; none before each was evaluated."""
    groups = (server.ask("rules") or {"groups": []})["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    if len(rules) < 10 or any(rule["health"] == "unknown" for rule in rules):
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

