"""The files of deploy/observability: right by promtool, and of metrics that exist."""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
from job import ROOT

FOLDER = ROOT / "deploy" / "observability"
RULES = [FOLDER / "rules.yml", FOLDER / "alerts.yml"]


def run(*words: str | Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_and_configuration_are_valid(promtool: str, tmp_path: Path) -> None:
    run(promtool, "check", "rules", "--lint-fatal", *RULES)
    token = tmp_path / "token"
    token.write_text("0")
    for rules in RULES:
        (tmp_path / rules.name).write_text(rules.read_text())
    config = (FOLDER / "prometheus.yml").read_text()
    assert "/data/runs/JOB/reading_token" in config
    config = config.replace("/data/runs/JOB/reading_token", str(token))
    (tmp_path / "prometheus.yml").write_text(config)
    run(promtool, "check", "config", tmp_path / "prometheus.yml")


def test_each_alert_fires_and_stays_silent_as_its_series_say(promtool: str) -> None:
    tests = ROOT / "tests" / "prometheus" / "rules_test.yml"
    alerts = set(re.findall(r"alert: (\w+)", RULES[1].read_text()))
    assert alerts == set(re.findall(r"alertname: (\w+)", tests.read_text()))
    run(promtool, "test", "rules", tests)


@pytest.mark.parametrize("name", ["rules.yml", "alerts.yml", "grafana-job.json"])
def test_names_are_those_of_metrics_and_rules(name: str) -> None:
    metrics = set(re.findall(r"`(paceline_\w+)", (ROOT / "docs" / "metrics.md").read_text()))
    records = set(re.findall(r"record: (\S+)", RULES[0].read_text()))
    guide = (ROOT / "docs" / "guides" / "kubernetes.md").read_text()
    metrics |= set(re.findall(r"`(paceline_operator_\w+)", guide))
    text = (FOLDER / name).read_text()
    labels = {"paceline_job"}  # of the scrape configuration
    used = set(re.findall(r"\bpaceline_\w+", text)) - labels
    assert used or name == "alerts.yml"
    assert used <= metrics, used - metrics
    assert set(re.findall(r"\bpaceline:[\w:]+", text)) <= records


def test_the_rules_of_the_prometheus_operator_are_the_same() -> None:
    groups = [path.read_text().split("groups:\n", 1)[1] for path in RULES]
    text = (FOLDER / "prometheusrule.yaml").read_text().split("  groups:\n", 1)[1]
    assert text == textwrap.indent("".join(groups), "  ")


def test_panels_of_the_board_have_places_of_their_own() -> None:
    board = json.loads((FOLDER / "grafana-job.json").read_text())
    taken: dict[tuple[int, int], str] = {}
    for panel in board["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24 and panel["targets"], panel["title"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                other = taken.setdefault((x, y), panel["title"])
                assert other == panel["title"], (other, panel["title"])
