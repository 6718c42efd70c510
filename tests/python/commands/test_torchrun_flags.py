"""Our parser of torchrun's command line against the installed torchrun's own."""

from __future__ import annotations

import argparse
import json
import os

import pytest
from command import paceline

torch_run = pytest.importorskip("torch.distributed.run", reason="torch is not installed: NOT RUN")

def theirs(args: list[str], env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict:
    for name in list(os.environ):
        if name.startswith("PET_"):
            monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return vars(torch_run.get_args_parser().parse_args(args))


# Each line is parsed by both; the values must be equal.
LINES: list[list[str]] = [
    ["t.py"],
    ["t.py", "--lr", "3", "-x", "--nnodes", "9"],
    ["--nnodes", "2", "t.py"],
    ["--nnodes=2:4", "t.py"],
    ["--nproc-per-node", "2", "t.py"],
    ["--nproc_per_node=2", "t.py"],
    ["--nproc-per-node=gpu", "t.py"],
    ["--nproc_per_node", "auto", "t.py"],
    ["--nproc-p", "3", "t.py"],
    ["--nproc_p=3", "t.py"],
    ["--standalone", "t.py", "a", "b"],
    ["--stand", "t.py"],
    ["--rdzv-backend", "c10d", "--rdzv-endpoint", "h:1", "--rdzv-id", "7", "t.py"],
    ["--rdzv_backend=c10d", "--rdzv_endpoint=h:1", "--rdzv_id=7", "t.py"],
    ["--rdzv-conf", "a=1,b=2", "t.py"],
    ["--rdzv-conf=is_host=1", "t.py"],
    ["--max-restarts", "3", "t.py"],
    ["--max_restarts=0", "t.py"],
    ["--max-restarts", "1_0", "t.py"],
    ["--max-restarts=-1", "t.py"],
    ["--monitor-interval", "0.5", "t.py"],
    ["--monitor_interval=5", "t.py"],
    ["--start-method", "fork", "t.py"],
    ["--start_method=forkserver", "t.py"],
    ["--event-log-handler", "null", "t.py"],
    ["--role", "trainer", "t.py"],
    ["--role=", "t.py"],
    ["-m", "pkg.mod", "--x"],
    ["--module", "pkg.mod", "-m"],
    ["--no-python", "prog", "-a"],
    ["--no_python", "prog"],
    ["--run-path", "/a/t.py"],
    ["--log-dir", "/tmp/l", "t.py"],
    ["--log_dir=/tmp/l", "t.py"],
    ["-r", "3", "t.py"],
    ["-r3", "t.py"],
    ["-r=3", "t.py"],
    ["--redirects", "0:1,1:2", "t.py"],
    ["-t", "3", "-r", "1", "t.py"],
    ["-mt3", "pkg.mod"],
    ["--tee=3", "t.py"],
    ["--log-line-prefix-template", "${rank}: ", "t.py"],
    ["--local-ranks-filter", "0,1", "t.py"],
    ["--local_ranks_filter=0", "t.py"],
    ["--duplicate-stdout-filters", "a,b,,c", "t.py"],
    ["--duplicate_stderr_filters=x", "t.py"],
    ["--duplicate-stdout-filters=", "t.py"],
    ["--node-rank", "1", "--master-addr", "10.0.0.1", "--master-port", "2", "t.py"],
    ["--node_rank=-1", "t.py"],
    ["--node-rank", "-1", "t.py"],
    ["--local-addr", "10.0.0.2", "t.py"],
    ["--logs-specs", "default", "t.py"],
    ["--signals-to-handle", "SIGTERM,SIGUSR1", "t.py"],
    ["--", "t.py", "--a"],
    ["t.py", "--", "--a"],
    ["t.py", "a", "--", "b"],
    ["--nnodes", "2", "--", "t.py"],
    ["--nnodes", "1", "--nnodes", "2", "t.py"],
    ["--rdzv-id", "a b", "t.py"],
    ["--rdzv-id", "- x", "t.py"],
    ["-", "x"],
    ["--master_addr", "[::1]", "t.py"],
]

ENVIRONMENTS: list[dict[str, str]] = [
    {"PET_NNODES": "3", "PET_NPROC_PER_NODE": "4", "PET_RDZV_ID": "j"},
    {"PET_STANDALONE": "1", "PET_MAX_RESTARTS": "5", "PET_MONITOR_INTERVAL": "2"},
    {"PET_STANDALONE": "0", "PET_MODULE": "2", "PET_MASTER_PORT": "7"},
    {"PET_DUPLICATE_STDOUT_FILTERS": "a,b", "PET_LOG_DIR": "/l", "PET_START_METHOD": "fork"},
    {"PET_LOGS_SPECS": "unread", "PET_NUMA_BINDING": "unread"},
]


def known(args: list[str]) -> bool:
    """Older torch versions lack some flags; an unknown one cannot be compared."""
    options = set(torch_run.get_args_parser()._option_string_actions)
    names = [a.split("=")[0] for a in args if a.startswith("--") and len(a) > 2]
    return all(any(option.startswith(name) for option in options) for name in names[:1])


def compare(args: list[str], env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    done = paceline("config", "parse-torchrun", "--", *args, env=env)
    assert done.returncode == 0, done.stderr
    ours = json.loads(done.stdout)
    expected = theirs(args, env, monkeypatch)
    assert {name: ours[name] for name in expected} == expected


@pytest.mark.parametrize("args", [pytest.param(a, id=" ".join(a)) for a in LINES if known(a)])
def test_same_values(args: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    compare(args, {}, monkeypatch)


@pytest.mark.parametrize("env", ENVIRONMENTS, ids=",".join)
def test_same_values_from_the_environment(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(["t.py"], env, monkeypatch)
    compare(["--nnodes", "1:2", "--max-restarts=1", "t.py"], env, monkeypatch)


def test_every_flag_is_known_with_the_same_arity() -> None:
    table = json.loads(paceline("config", "torchrun-table").stdout)
    ours = {spelling: row for row in table for spelling in row["spellings"]}
    for action in torch_run.get_args_parser()._actions:
        if isinstance(action, argparse._HelpAction) or not action.option_strings:
            continue
        for option in action.option_strings:
            assert option in ours, f"{option} is a flag of this torchrun and unknown to paceline"
            assert ours[option]["dest"] == action.dest
            assert ours[option]["takes_value"] == (action.nargs != 0), option


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--nope", "t.py"], "PL-E001"),
        (["--nnodes"], "PL-E002"),
        (["--standalone=1", "t.py"], "PL-E002"),
        (["--max-restarts", "x", "t.py"], "PL-E003"),
        (["--start-method", "thread", "t.py"], "PL-E003"),
        (["--rdzv", "x", "t.py"], "PL-E004"),
        ([], "PL-E010"),
    ],
)
def test_both_refuse(args: list[str], code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = paceline("config", "parse-torchrun", "--json", "--", *args)
    assert done.returncode == 2
    assert json.loads(done.stdout)["code"] == code
    with pytest.raises(SystemExit):
        theirs(args, {}, monkeypatch)
