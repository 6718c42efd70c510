"""The parts of a job on Ray that need no cluster: decisions about nodes, guard, forwarder."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="RAY NOT TESTED: `uv pip install ray`")

from paceline.errors import PacelineError
from paceline.integrations.ray import PacelineTrainer
from paceline.integrations.ray.commands import Commands, Piece
from paceline.integrations.ray.decide import (
    NO_DEADLINE_SECONDS,
    Fact,
    NodeId,
    Notice,
    Seen,
    State,
    Wish,
    decide,
    is_final,
    notices,
    pending_text,
)
from paceline.integrations.ray.directory import make_directory, write_secrets
from paceline.integrations.ray.entry import get_dataset_shard
from paceline.integrations.ray.forwarder import Forwarder
from paceline.integrations.ray.head import Head, say_seconds, stop_seconds
from paceline.integrations.ray.host import GUARD
from paceline.integrations.ray.spec import JobSpec, master_line, node_line
from paceline.integrations.ray.submit import HeadError, HeadWatch, RayError, connect


def wish(size: int, *, spares: int = 0, drain: bool = False, absent: set[int] | None = None,
         **incarnations: int) -> Wish:
    """`wish(2, n1=3)`: node1 for the third time."""
    by_index = {int(name[1:]): value for name, value in incarnations.items()}
    return Wish(1, drain, size, spares, by_index, frozenset(absent or ()))


def test_what_is_wished_for_and_not_there_is_started() -> None:
    decision = decide(wish(2, spares=1, absent={0}), [Seen(NodeId(2, 0), State.WAITS, "no CPU")])
    assert decision.start == (NodeId(1, 0),)
    assert decision.stop == ()
    assert decision.facts == (Fact(NodeId(2, 0), False, "no CPU"),)


def test_an_ended_node_is_reported_until_its_next_incarnation_is_wished_for() -> None:
    ended = Seen(NodeId(0, 0), State.ENDED, "its raylet died")
    decision = decide(wish(1), [ended])
    assert decision.start == () and decision.facts == (Fact(NodeId(0, 0), True, "its raylet died"),)
    assert decide(wish(1, n0=1), [ended]).start == (NodeId(0, 1),)


def test_a_lower_incarnation_and_an_unwished_node_are_stopped() -> None:
    seen = [Seen(NodeId(0, 0), State.RUNS), Seen(NodeId(0, 1), State.RUNS),
            Seen(NodeId(1, 0), State.RUNS)]
    decision = decide(wish(1, n0=1), seen)
    assert decision.stop == (NodeId(0, 0), NodeId(1, 0))
    assert decision.facts == (Fact(NodeId(0, 1), False, ""),)


def test_a_job_that_ends_starts_and_stops_nothing() -> None:
    decision = decide(wish(2, drain=True), [Seen(NodeId(0, 0), State.RUNS)])
    assert (decision.start, decision.stop) == ((), ())


def test_a_master_that_was_taken_away_is_no_end() -> None:
    assert is_final(0, is_asked=False) and is_final(143, is_asked=True)
    assert not is_final(143, is_asked=False) and not is_final(137, is_asked=False)
    assert not is_final(10, is_asked=True), "stopped from outside, and saved"


def test_what_ray_has_no_room_for_is_said_by_name() -> None:
    needs = {"CPU": 1.0, "GPU": 8}
    assert pending_text([], needs) == ""
    assert pending_text([NodeId(3, 1)], needs) == (
        "Ray has no room for node3, which needs CPU 1, GPU 8 free on one raylet")
    assert pending_text([NodeId(0, 0), NodeId(1, 0), NodeId(2, 0)], needs) == (
        "Ray has no room for node0, node1 and node2; each needs CPU 1, GPU 8 free on one raylet")


def test_a_directory_has_the_mark_by_which_it_is_cleaned(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directory = make_directory("train", "node0 1")
    write_secrets(directory, {"token": b"secret"})
    assert directory.stat().st_mode & 0o777 == 0o700
    assert (directory / "token").stat().st_mode & 0o777 == 0o600
    mark = json.loads((directory / "ray.json").read_text())
    assert (mark["job"], mark["part"], mark["actor"]["pid"]) == ("train", "node0 1", os.getpid())
    with pytest.raises(FileExistsError):
        write_secrets(directory, {"token": b"another"})
    dry = [PACELINE, "clean", "--dry-run"]
    environment = os.environ | {"TMPDIR": str(tmp_path),
                                "PACELINE_RUNTIME_DIR": str(tmp_path / "runtime")}

    def planned(*words: str) -> str:
        return subprocess.run([*dry, *words], env=environment, text=True, capture_output=True,
                              check=True).stdout

    assert str(directory) not in planned("--older-than", "0s"), "its process lives"
    mark["actor"]["start_time"] += 1
    (directory / "ray.json").write_text(json.dumps(mark))
    assert f"directory of a Ray job {directory}: node0 1 of train" in planned("--older-than", "0s")
    assert str(directory) not in planned()
    (directory / "ray.json").write_text(json.dumps(mark | {"part": "adapter"}))
    assert f"credentials of a Ray job {directory}" in planned()


def test_the_specification_is_read_back_as_it_was() -> None:
    spec = JobSpec("train", nodes_min=2, nodes_max=4, resources={"GPU": 8}, target="pkg.train",
                   is_module=True, args=("--lr", "0.1"), run_flags=("--ckpt-every", "30s"))
    assert JobSpec.from_json(spec.to_json()) == spec
    assert master_line(spec, "C", "R", 1234) == [
        "run", "--credentials", "C", "--rdzv-endpoint", "0.0.0.0:1234", "--local-nodes", "0",
        "--nnodes", "2:4", "--spares", "0", "--name", "train", "--nproc-per-node", "8",
        "--run-dir", "R", "--ckpt-every", "30s", "--module", "pkg.train", "--lr", "0.1"]
    line = node_line(spec, NodeId(3, 2), "C", "R", port=99, own_address="10.0.0.7")
    assert line[:11] == ["run", "--credentials", "C", "--rdzv-endpoint", "127.0.0.1:99",
                         "--node-name", "node3", "--incarnation", "2", "--local-addr", "10.0.0.7"]


PACELINE = str(Path(sys.executable).with_name("paceline"))
# A grandchild with a session of its own, as ranks have. It tells its pid and stays.
ORPHANS = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1] + ".part", "w").write(str(os.getpid()))
        os.rename(sys.argv[1] + ".part", sys.argv[1])
        time.sleep(600)
    os._exit(0)
if sys.argv[2] == "ends":
    while not os.path.exists(sys.argv[1]): time.sleep(0.01)
    os._exit(7)
time.sleep(600)
"""


def start_guard(tmp_path: Path, how: str) -> tuple[subprocess.Popen[bytes], int, int]:
    """The guard, our end of its lifeline, and the pid of the grandchild."""
    theirs, ours = os.pipe()
    told, secrets = tmp_path / "pid", tmp_path / "secrets"
    secrets.mkdir()
    guard = subprocess.Popen(
        [sys.executable, "-P", str(GUARD), str(theirs), str(secrets), sys.executable,
         "-c", ORPHANS, str(told), how], pass_fds=(theirs,))
    os.close(theirs)
    while not told.exists():
        assert guard.poll() is None or how == "ends"
        time.sleep(0.01)
    return guard, ours, int(told.read_text())


@pytest.mark.parametrize("kills_children", [False, True])
def test_nothing_is_left_of_a_node_whose_actor_died(tmp_path: Path, kills_children: bool) -> None:
    """Ray kills the children of an actor that dies."""
    guard, ours, grandchild = start_guard(tmp_path, "stays")
    if kills_children:
        guard.kill()
    os.close(ours)
    assert guard.wait() == (-signal.SIGKILL if kills_children else 128 + signal.SIGKILL)
    while not is_zombie(grandchild) or (tmp_path / "secrets").exists():
        time.sleep(0.01)


def test_the_guard_ends_with_its_programs_code_and_leaves_nothing(tmp_path: Path) -> None:
    guard, ours, grandchild = start_guard(tmp_path, "ends")
    assert guard.wait() == 7
    assert is_zombie(grandchild) and not (tmp_path / "secrets").exists()
    os.close(ours)


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def answer_with(word: bytes) -> tuple[socket.socket, str]:
    """A server that sends this word to each caller, then what it hears, until it is closed."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                caller, _ = server.accept()
            except OSError:
                return
            caller.sendall(word)
            caller.sendall(caller.recv(100))
            caller.close()

    threading.Thread(target=serve, daemon=True).start()
    return server, f"127.0.0.1:{server.getsockname()[1]}"


def ask(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as own:
        heard = own.recv(100)
        own.sendall(b" and more")
        while data := own.recv(100):
            heard += data
        return heard


def test_a_drained_raylet_is_a_notice_for_its_node() -> None:
    places = {NodeId(1, 2): "b", NodeId(0, 0): "a", NodeId(2, 0): "c", NodeId(3, 0): "d"}
    told = notices(places, {"b": 1_030_900, "c": 0, "d": 900_000, "elsewhere": 1}, now=1000.0)
    assert told == [Notice(NodeId(1, 2), 30), Notice(NodeId(2, 0), NO_DEADLINE_SECONDS),
                    Notice(NodeId(3, 0), 0)]
    assert told[0].line()["notice"] == {"name": "node1", "incarnation": 2, "left_seconds": 30,
                                        "why": "Ray drains its raylet"}


def test_a_wish_names_the_hosts_to_avoid() -> None:
    line = {"seq": 1, "drain": False, "size": 1, "spares": 0, "incarnations": {}, "absent": [],
            "excluded": ["host7"]}
    assert Wish.of(line).excluded == {"host7"}


def test_a_forwarder_follows_the_master() -> None:
    first, first_address = answer_with(b"first")
    second, second_address = answer_with(b"second")
    forwarder = Forwarder(first_address)
    assert ask(forwarder.port) == b"first and more"
    forwarder.point_to(second_address)
    assert ask(forwarder.port) == b"second and more"
    second.close()
    first.close()


def test_a_head_that_is_away_is_told_once_and_given_up_before_ray_does() -> None:
    now, is_up = 0.0, True
    told: list[str] = []
    watch = HeadWatch("train", Head("10.0.0.1:6379", answers=lambda _: is_up, clock=lambda: now),
                      told.append)

    def at(seconds: float, up: bool) -> None:
        nonlocal now, is_up
        now, is_up = seconds, up
        watch.look()

    for seconds, up in ((1, True), (4, False), (6, False), (8, False), (30, True), (31, True)):
        at(seconds, up)
    assert told == ["paceline: Ray's head at 10.0.0.1:6379 has not answered for 5 s; train trains "
                    "on meanwhile", "paceline: Ray's head at 10.0.0.1:6379 answers again"]
    at(80, False)
    with pytest.raises(HeadError, match="the job train is lost"):
        at(84, False)
    assert stop_seconds() < say_seconds() < 60


def test_rays_own_patience_is_taken_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "600")
    assert (stop_seconds(), say_seconds()) == (578, 592)


def pieces_of(script: str) -> Iterator[Piece]:
    commands = Commands()
    number = commands.begin([sys.executable, "-u", "-c", script], {"WORD": "given"})
    while True:
        piece = commands.read(number, 60.0)
        yield piece
        if piece.exit_code is not None:
            with pytest.raises(KeyError):
                commands.read(number, 0)
            return


def test_the_output_of_a_command_comes_while_it_runs(tmp_path: Path) -> None:
    """The script waits for the file that is made when its first line was read."""
    pieces = pieces_of(f"""
import os, sys, time
print("begins", os.environ["WORD"]); sys.stdout.write("half a line")
while not os.path.exists("{tmp_path}/read"): time.sleep(0.01)
print(", and its end"); print("bad", file=sys.stderr); sys.stdout.write("no end"); sys.exit(7)
""")
    assert next(pieces) == Piece(b"begins given\n", b"", None)
    (tmp_path / "read").touch()
    rest = list(pieces)
    assert b"".join(piece.out for piece in rest) == b"half a line, and its end\nno end"
    assert b"".join(piece.err for piece in rest) == b"bad\n"
    assert [piece.exit_code for piece in rest][-1] == 7


def test_a_command_without_a_caller_is_interrupted(monkeypatch: pytest.MonkeyPatch,
                                                  tmp_path: Path) -> None:
    monkeypatch.setattr("paceline.integrations.ray.commands._CALLER_SECONDS", 1e9)
    begun, told = tmp_path / "begun", tmp_path / "interrupted"
    commands = Commands()
    commands.begin([sys.executable, "-c", f"""
import pathlib, time
part = pathlib.Path("{told}.part")
try:
    pathlib.Path("{begun}").touch()
    time.sleep(600)
except KeyboardInterrupt:
    part.write_text("by Ctrl-C")
    part.rename("{told}")
"""], {})
    while not begun.exists():
        time.sleep(0.01)
    monkeypatch.setattr("paceline.integrations.ray.commands._CALLER_SECONDS", 0.0)
    while not told.exists():
        time.sleep(0.01)
    assert told.read_text() == "by Ctrl-C"


def test_datasets_of_ray_are_refused() -> None:
    with pytest.raises(PacelineError, match="takes no datasets"):
        PacelineTrainer(print, datasets={"train": object()})
    with pytest.raises(PacelineError, match="no datasets of Ray"):
        get_dataset_shard("train")


def test_another_version_of_ray_or_python_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(**_: object) -> None:
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.60.0\n"
                           "    Python: 3.12.1\nThis process was started with: …")

    monkeypatch.setattr("ray.init", refuses)
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(RayError) as raised:
        connect()
    assert "Python: 3.12.1" in raised.value.why and "a Python of the cluster's" in raised.value.fix
