"""Pages that are made from tables are as the tables are; the tables cover the code."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from command import ROOT, paceline


@pytest.mark.parametrize(
    ("page", "path"),
    [
        ("flags", "docs/guides/cli.md"),
        ("settings", "docs/guides/settings.md"),
        ("errors", "docs/errors.md"),
        ("classes", "docs/guides/failure-classes.md"),
        ("metrics", "docs/metrics.md"),
    ],
)
def test_page_is_as_its_table(page: str, path: str) -> None:
    made = paceline("config", "docs", page).stdout
    assert made == (ROOT / path).read_text(), f"run: paceline config docs {page} > {path}"


def test_every_code_in_the_sources_is_explained() -> None:
    codes = set()
    for source in (ROOT / "src").rglob("*.cc"):
        if not source.name.endswith("_test.cc"):
            codes |= set(re.findall(r'"(PL-[EW]\d{3})"', source.read_text()))
    for source in (ROOT / "python").rglob("*.py"):
        codes |= set(re.findall(r"PL-[EW]\d{3}", source.read_text()))
    for code in sorted(codes):
        done = paceline("why", code)
        assert done.returncode == 0, f"{code} has no row in cli/console/error_codes.cc"
        assert done.stdout.startswith(code)


def test_version_is_the_projects() -> None:
    listfile = (ROOT / "CMakeLists.txt").read_text()
    declared = re.search(r"project\(paceline VERSION ([\d.]+)", listfile)
    assert declared is not None
    assert json.loads(paceline("version", "--json").stdout)["version"] == declared.group(1)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_command(shell: str) -> None:
    done = paceline("completion", shell)
    assert done.returncode == 0
    for verb in ("ps", "doctor", "config", "completion", "why", "version"):
        assert verb in done.stdout


def test_bash_completion_is_valid_and_completes() -> None:
    script = paceline("completion", "bash").stdout
    ask = script + '\nCOMP_WORDS=(paceline conf); COMP_CWORD=1; _paceline; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["config"]


def test_streams_and_exit_codes() -> None:
    done = paceline("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: paceline" in done.stdout
    done = paceline()
    assert (done.returncode, done.stdout) == (2, "")
    done = paceline("confg")
    assert done.returncode == 2
    assert "did you mean paceline config?" in done.stderr
    done = paceline("why", "PL-E777", "--json")
    assert json.loads(done.stdout)["schema"] == "paceline.error/1"


def test_settings_file_and_origin(tmp_path) -> None:
    (tmp_path / "paceline").mkdir()
    (tmp_path / "paceline/config.toml").write_text('[timers]\nlost_after = "3s"\n')
    env = {"XDG_CONFIG_HOME": str(tmp_path), "PACELINE_JOB_SPARES": "2"}
    done = paceline("config", "show", "--json", env=env)
    settings = json.loads(done.stdout)["settings"]
    assert settings["timers.lost_after"]["value"] == "3s"
    assert settings["timers.lost_after"]["origin"].endswith("config.toml:2")
    assert settings["job.spares"] == {"value": "2", "origin": "PACELINE_JOB_SPARES"}
    (tmp_path / "paceline/config.toml").write_text("[timers]\nlost_aftr = 1\n")
    done = paceline("config", "show", env=env)
    assert done.returncode == 2
    assert "error[PL-E012]" in done.stderr
    assert "did you mean timers.lost_after?" in done.stderr
