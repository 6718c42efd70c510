"""The relabelling of servicemonitor.yaml, by a real Prometheus.

The Prometheus operator, TLS and the token are not a part of this test. The tests of paceline's
operator have the latter two.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from a_prometheus import FOLDER, Server, running
from job import eventually

SERIES = """\
# TYPE paceline_step gauge
paceline_step{job="train",namespace="default"} 7
paceline_step{job="train",namespace="other"} 9
# TYPE paceline_operator_master_heard gauge
paceline_operator_master_heard{job="train",namespace="default"} 1
# TYPE go_goroutines gauge
go_goroutines 50
"""


class Operator(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(SERIES.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def operator() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Operator)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def configuration(port: int) -> str:
    """The relabelling of the ServiceMonitor, in Prometheus' own words."""
    monitor = (FOLDER / "servicemonitor.yaml").read_text()
    assert "honorLabels: true" in monitor
    rules = monitor.split("metricRelabelings:\n", 1)[1].split("---\n", 1)[0]
    rules = rules.replace("sourceLabels", "source_labels").replace("targetLabel", "target_label")
    assert not re.search(r"\b[a-z]+[A-Z]\w*:", rules), "a word that Prometheus does not know"
    return f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yml, alerts.yml]
scrape_configs:
  - job_name: paceline-operator-metrics
    honor_labels: true
    static_configs:
      - targets: ["127.0.0.1:{port}"]
        labels: {{namespace: paceline-system, pod: paceline-operator-1}}
    metric_relabel_configs:
{textwrap.indent(textwrap.dedent(rules), "      ")}
"""


def test_the_series_of_a_job_have_its_namespace_and_name(prometheus: str, tmp_path: Path) -> None:
    with operator() as port, running(prometheus, tmp_path / "prometheus",
                                     configuration(port)) as api:
        server = Server(api)
        found = eventually(lambda: server.results("paceline_step") or None, "the steps are there")
        assert sorted((one["value"][1], one["metric"]) for one in found) == [
            (step, {"__name__": "paceline_step", "namespace": namespace, "job": "train",
                    "paceline_job": f"{namespace}/train"})
            for step, namespace in (("7", "default"), ("9", "other"))]
        # The operator's own series keep the labels of their target.
        (own,) = server.results("go_goroutines")
        assert own["metric"] == {
            "__name__": "go_goroutines", "namespace": "paceline-system", "pod":
            "paceline-operator-1", "job": "paceline-operator-metrics",
            "instance": f"127.0.0.1:{port}"}
