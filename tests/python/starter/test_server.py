"""The starter's socket: hostile peers, other agents, agents that come back, and when it ends."""

import errno
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from agent_double import (
    DEADLINE_SECONDS,
    Peer,
    Starter,
    start_starter,
    starter,
    wait_until,
    write_page,
)
from free_ports import free_port
from paceline._base.processes import has_gone, start_time, stat_of
from paceline._native import SlotBook
from paceline._starter.server import Server, Warmth

WAITS = "import sys\nprint('ready', flush=True)\nsys.stdin = None\nimport signal\nsignal.pause()\n"


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Starter]:
    (tmp_path / "waits.py").write_text(WAITS)
    (tmp_path / "ends.py").write_text("print('done')\n")
    with starter(tmp_path) as running:
        yield running


def framed(body: bytes) -> bytes:
    return struct.pack("<I", len(body)) + body


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (struct.pack("<I", 0), "0 bytes"),
        (struct.pack("<I", (4 << 20) + 1), "bytes"),
        (b"\xff\xff\xff\xff", "bytes"),
        (framed(b"not json"), "not JSON"),
        (framed(b"\xff\xfe"), "not JSON"),
        (framed(b"[1]"), "not an object"),
        (framed(b"[" * 100_000), "not JSON"),
        (framed(b"{}"), "'type'"),
        (framed(b'{"type": "spawn"}'), "hello"),
        (framed(b'{"type": "hello", "protocol": 99, "job": "j", "node": "n"}'), "protocol 1"),
        (framed(b'{"type": "hello", "protocol": true, "job": "j", "node": "n"}'), "protocol"),
        (framed(b'{"type": "hello", "protocol": 1, "job": "", "node": "n"}'), "empty"),
        (framed(b'{"type": "hello", "protocol": 1, "job": 7, "node": "n"}'), "'job'"),
        (framed(b'{"type": "hello", "protocol": 1, "job": "\\ud800", "node": "n"}'), "'job'"),
    ],
)
def test_hostile_bytes_close_only_their_connection(bare: Starter, data: bytes, why: str) -> None:
    hostile = Peer(bare.socket_path, hello=False)
    hostile.raw(data)
    answer = hostile.read()
    assert answer is not None
    assert answer["type"] == "error"
    assert why in answer["why"]
    assert hostile.read() is None
    assert bare.run("script", "ends.py").out == "done\n"


def test_half_a_message_does_not_stop_others(bare: Starter) -> None:
    slow = Peer(bare.socket_path, hello=False)
    slow.raw(struct.pack("<I", 1000) + b"{")
    assert bare.run("script", "ends.py").out == "done\n"
    slow.close()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"entry": "shell"}, "'entry'"),
        ({"args": ["a", 1]}, "'args'"),
        ({"args": "a"}, "'args'"),
        ({"env": {"A=B": "c"}}, "'env'"),
        ({"env": {"A": "b\0c"}}, "'env'"),
        ({"slot": 64}, "'slot'"),
        ({"slot": -1}, "'slot'"),
        ({"generation": 1.5}, "'generation'"),
        ({"store_port": 65536}, "'store_port'"),
        ({"warm": 1}, "'warm'"),
        ({"cwd": None}, "'cwd'"),
    ],
)
def test_broken_spawn_closes_the_connection(
    bare: Starter, change: dict[str, object], why: str
) -> None:
    other = Peer(bare.socket_path, node="other")
    write_page(bare.folder / "other", node="other")
    fields: dict[str, Any] = {"page": str(bare.folder / "other")} | change
    entry = fields.pop("entry", "script")
    with pytest.raises(AssertionError):
        bare.spawn(entry, "ends.py", peer=other, **fields)
    error = [message for message in other.kept if message["type"] == "error"]
    assert why in error[0]["why"]
    assert bare.run("script", "ends.py").out == "done\n"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"page": "/nowhere/page"}, "No such file"),
        ({"page": "/proc/self/stat"}, "page"),
        ({"slot": 5}, "no slot 5"),
        ({"cwd": "/nowhere"}, "/nowhere: No such file"),
        ({"stdout": "/nowhere/out"}, "/nowhere/out: No such file"),
        ({"entry": "exec", "target": "no-such-program"}, "no such program"),
        ({"entry": "exec", "target": "/etc/passwd"}, "Permission denied"),
    ],
)
def test_impossible_spawn_fails_with_the_reason(
    bare: Starter, change: dict[str, object], why: str
) -> None:
    more = {"entry": "script", "target": "ends.py"} | change
    answer = bare.spawn(str(more.pop("entry")), str(more.pop("target")), **more)
    assert answer["type"] == "spawn_failed"
    assert why in answer["why"]
    assert bare.slot(0)["state"] == 0
    assert bare.run("script", "ends.py").out == "done\n"


def test_page_of_another_node_is_refused(bare: Starter) -> None:
    other = Peer(bare.socket_path, node="node9")
    answer = bare.spawn("script", "ends.py", peer=other)
    assert answer["type"] == "spawn_failed"
    assert "node node0" in answer["why"]


def test_slot_in_use_is_refused(bare: Starter) -> None:
    pid = bare.spawn("script", "waits.py")["pid"]
    answer = bare.spawn("script", "ends.py")
    assert answer["type"] == "spawn_failed"
    assert str(pid) in answer["why"]


def test_a_slot_whose_rank_has_just_ended_is_free(bare: Starter) -> None:
    """The agent saw the end and asks for the next rank before the starter came to look."""
    pid = bare.spawn("script", "waits.py")["pid"]
    os.kill(bare.process.pid, signal.SIGSTOP)
    wait_until(lambda: stat_of(bare.process.pid)[0] == "T", "the starter stands still")
    bare.ask_spawn("script", "ends.py")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: stat_of(pid)[0] == "Z", "a zombie")
    os.kill(bare.process.pid, signal.SIGCONT)
    ended, spawned, last = (bare.peer.read() for _ in range(3))
    assert ended and spawned and last
    assert (ended["type"], ended["pid"]) == ("exited", pid)
    assert (spawned["type"], last["type"]) == ("spawned", "exited"), spawned


def test_a_rank_that_cannot_be_watched_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_pidfd = os.pidfd_open
    unwatched: list[int] = []

    def pidfd_open(pid: int) -> int:
        if not unwatched:
            unwatched.append(pid)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return open_pidfd(pid)

    monkeypatch.setattr(os, "pidfd_open", pidfd_open)
    write_page(tmp_path / "page")
    cold = Warmth(imports_ms=0, failure="it serves this test", started_with={}, base_path=())
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor() as pool:
        listener.bind(str(tmp_path / "sock"))
        listener.listen()
        serving = pool.submit(Server(listener, cold, keep_warm=0.0).serve, lambda: True)
        running = Starter(Mock(), tmp_path)
        running.peer = Peer(running.socket_path)
        try:
            refused = running.spawn("exec", "sleep", "60")
            assert refused["why"] == "[Errno 24] Too many open files"
            assert start_time(unwatched[0]) == 0, "it is ended and reaped"
            assert running.slot()["state"] == 0
            assert running.run("exec", "true").status == 0
        finally:
            running.peer.close()
        assert serving.result(DEADLINE_SECONDS) is None


def test_a_warm_time_may_be_longer_than_any_wait_of_the_kernel(tmp_path: Path) -> None:
    forever = 2_562_047 * 3600.0
    with starter(tmp_path, "--keep-warm", str(forever)) as running:
        assert running.run("exec", "true").status == 0
        running.peer.close()  # the starter becomes idle, and waits for its end
        running.peer = Peer(running.socket_path)
        assert running.run("exec", "true").status == 0


def test_exit_is_on_the_page_before_it_is_told(bare: Starter) -> None:
    (bare.folder / "exit3.py").write_text("raise SystemExit(3)\n")
    got = bare.run("script", "exit3.py", rank=2)
    slot = bare.slot(2)
    assert (slot["state"], slot["wait_status"], slot["pid"]) == (3, 3 << 8, got.spawned["pid"])
    assert slot["attempt"] == got.spawned["attempt"] == 1
    assert slot["maxrss_kib"] == got.exited["maxrss_kib"] > 1000


def test_rank_goes_on_without_its_agent_and_the_next_one_finds_it(bare: Starter) -> None:
    living = bare.spawn("script", "waits.py", rank=0)
    dying = bare.spawn("script", "waits.py", rank=1)
    bare.peer.close()
    os.kill(dying["pid"], signal.SIGTERM)
    bare.peer = Peer(bare.socket_path)
    bare.peer.send(type="list")
    children = {row["pid"]: row for row in bare.peer.wait("children")["children"]}
    if children[dying["pid"]]["running"]:
        status = bare.peer.wait("exited", pid=dying["pid"])["wait_status"]
    else:
        status = children[dying["pid"]]["wait_status"]
    assert status == signal.SIGTERM
    assert children[living["pid"]]["running"]
    assert children[living["pid"]]["start_time"] == living["start_time"]
    os.kill(living["pid"], signal.SIGKILL)
    assert bare.peer.wait("exited", pid=living["pid"])["wait_status"] == signal.SIGKILL


def test_newer_connection_of_a_node_takes_over(bare: Starter) -> None:
    former = bare.peer
    bare.peer = Peer(bare.socket_path)
    assert "newer connection" in former.wait("error")["why"]
    assert former.read() is None
    assert bare.run("script", "ends.py").out == "done\n"


def test_only_the_last_nodes_without_an_agent_are_remembered(bare: Starter) -> None:
    def listed(node: str) -> list[dict[str, Any]]:
        peer = Peer(bare.socket_path, node=node)
        peer.send(type="list")
        children: list[dict[str, Any]] = peer.wait("children")["children"]
        peer.close()
        return children

    for node in ("old", "new"):
        write_page(bare.folder / node, node=node)
        peer = Peer(bare.socket_path, node=node)
        bare.spawn("script", "ends.py", peer=peer, page=str(bare.folder / node))
        peer.wait("exited")
        peer.close()
        if node == "old":
            for number in range(70):
                Peer(bare.socket_path, node=f"other{number}").close()
    assert len(listed("new")) == 1
    assert listed("old") == []


def test_agents_of_two_nodes_hear_only_of_their_own(bare: Starter) -> None:
    write_page(bare.folder / "page1", node="node1")
    other = Peer(bare.socket_path, node="node1")
    mine = bare.spawn("script", "ends.py")
    theirs = bare.spawn("script", "ends.py", peer=other, page=str(bare.folder / "page1"))
    assert other.wait("exited")["pid"] == theirs["pid"]
    assert bare.peer.wait("exited")["pid"] == mine["pid"]
    other.send(type="list")
    assert [row["pid"] for row in other.wait("children")["children"]] == [theirs["pid"]]


def test_taken_store_port_is_marked_and_exits_with_75(bare: Starter) -> None:
    port = free_port()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        got = bare.run("script", "ends.py", store_port=port)
        assert (got.status, got.out) == (75 << 8, "")
        assert bare.slot(0)["port_taken"]
        assert bare.run("script", "ends.py", store_port=port, rank=1).out == "done\n"
    assert bare.run("script", "ends.py", store_port=port).out == "done\n"
    assert not bare.slot(0)["port_taken"]


def test_second_starter_leaves_at_once(bare: Starter) -> None:
    second = start_starter(bare.folder)
    assert second.wait(DEADLINE_SECONDS) == 0
    assert bare.run("script", "ends.py").out == "done\n"


def test_a_rank_reads_the_stdin_that_was_ordered(bare: Starter) -> None:
    (bare.folder / "reads.py").write_text("import sys\nprint(repr(sys.stdin.read()))\n")
    given = bare.folder / "given"
    given.write_text("hello\n")
    assert bare.run("script", "reads.py", stdin=str(given)).out == "'hello\\n'\n"
    for gone in (None, str(bare.folder / "gone")):
        assert bare.run("script", "reads.py", stdin=gone).out == "''\n"
    os.mkfifo(bare.folder / "fifo")  # nobody writes to it: not waited for
    assert bare.run("script", "reads.py", stdin=str(bare.folder / "fifo")).out == "''\n"


def others_with(path: Path) -> list[int]:
    """Processes beside this one that have the file open."""
    found: list[int] = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        with suppress(OSError):  # it has ended meanwhile
            for fd in (process / "fd").iterdir():
                with suppress(OSError):
                    if os.readlink(fd) == str(path):
                        found.append(int(process.name))
    return found


def test_starter_waits_for_one_that_is_just_leaving(tmp_path: Path) -> None:
    path = tmp_path / "sock.lock"
    with ThreadPoolExecutor() as pool, path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as who leaves has it, when its socket is gone
        begun = pool.submit(start_starter, tmp_path)
        wait_until(lambda: others_with(path), "it has come to the lock")
        assert not begun.done()
        fcntl.flock(lock, fcntl.LOCK_UN)
        process = begun.result(DEADLINE_SECONDS)
    try:
        Peer(tmp_path / "sock").close()
    finally:
        process.terminate()
        process.wait(DEADLINE_SECONDS)


def test_starter_ends_when_nobody_needs_it(bare: Starter) -> None:
    child = bare.spawn("script", "waits.py")
    bare.peer.close()
    # It still has a child, so it can be joined.
    bare.peer = Peer(bare.socket_path)
    os.kill(child["pid"], signal.SIGKILL)
    bare.peer.wait("exited")
    bare.peer.send(type="bye")
    assert bare.process.wait(DEADLINE_SECONDS) == 0
    assert not bare.socket_path.exists()


def orphan_of(running: Starter, node: str, agent: int | None = None) -> int:
    """A rank whose agent closes its connection for good; its pid."""
    page = running.folder / f"page-{node}"  # not in the run directory
    write_page(page, node=node)
    folder = running.folder / "run" / "nodes" / node
    folder.mkdir(parents=True)
    if agent is not None:
        name = {"pid": agent, "start_time": start_time(agent)}
        (folder / "agent.json").write_text(json.dumps(name))
    peer = Peer(running.socket_path, node=node, orphan_after_ms=100)
    env = {"PACELINE_RUN_DIR": str(running.folder / "run"), "PACELINE_NODE": node}
    child = running.spawn("script", "waits.py", peer=peer, page=str(page), env=env)
    assert child["type"] == "spawned", child
    peer.close()
    return int(child["pid"])


def test_ranks_without_an_agent_are_ended(bare: Starter) -> None:
    mine = bare.spawn("script", "waits.py")
    orphan = orphan_of(bare, "node1")
    wait_until(lambda: start_time(orphan) == 0, "the orphan is ended and reaped")
    assert start_time(mine["pid"]) == mine["start_time"]
    assert f"killed=[{orphan}]" in (bare.folder / "starter.log").read_text()


def test_ranks_whose_agent_lives_stay(bare: Starter) -> None:
    # That agent uses another starter now. The second node is looked at after the first.
    kept = orphan_of(bare, "node1", agent=os.getpid())
    orphan = orphan_of(bare, "node2")
    wait_until(lambda: start_time(orphan) == 0, "the orphan is ended and reaped")
    assert start_time(kept) != 0
    os.killpg(kept, signal.SIGKILL)


def test_ranks_survive_a_dead_starter_and_their_slot_is_guarded(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    with starter(tmp_path) as first:
        child = first.spawn("script", "waits.py")
        # Until it runs its script, a fork of the starter has the starter's lock and socket.
        printed = tmp_path / f"out{child['id']}"
        wait_until(lambda: printed.read_text() == "ready\n", "the rank runs its script")
        first.process.kill()
        first.process.wait(DEADLINE_SECONDS)
        second = Starter(start_starter(tmp_path), tmp_path)
        try:
            second.peer = Peer(second.socket_path)
            answer = second.spawn("script", "waits.py")
            assert answer["type"] == "spawn_failed"
            assert f"process {child['pid']} of a former starter" in answer["why"]
        finally:
            second.process.kill()
            second.process.wait(DEADLINE_SECONDS)


def test_a_zombie_of_a_former_starter_leaves_its_slot(tmp_path: Path) -> None:
    """Its new parent may be slow to reap it. This test is that parent, and does not reap."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    began = start_time(ended.pid)
    assert not has_gone(os.getpid(), start_time(os.getpid()), 0)
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert start_time(ended.pid) == began, "it is a zombie"
    assert has_gone(ended.pid, began, 0)
    with starter(tmp_path) as running:
        book = SlotBook.open(str(running.page_path), "job", "node0")
        book.begin(0, 1, 0, 0, 1)
        book.running(0, ended.pid, began)
        (tmp_path / "waits.py").write_text(WAITS)
        assert running.spawn("script", "waits.py")["type"] == "spawned"
    ended.wait()


# Arguments: folder and name of the socket, user id. Goes into the folder while it still may.
STRANGER = """
import json, os, socket, struct, sys
os.chdir(sys.argv[1])
os.setgid(int(sys.argv[3]))
os.setuid(int(sys.argv[3]))
peer = socket.socket(socket.AF_UNIX)
peer.settimeout(60)
peer.connect(sys.argv[2])
hello = json.dumps({"type": "hello", "protocol": 1, "job": "job", "node": "node0"}).encode()
try:
    peer.sendall(struct.pack("<I", len(hello)) + hello)
    answer = peer.recv(4096)
except (BrokenPipeError, ConnectionResetError):
    answer = b""
print("ready" if b"ready" in answer else f"heard {len(answer)} bytes")
"""


@pytest.mark.skipif(
    os.geteuid() != 0, reason="PEER USER NOT TESTED: needs root to become another user"
)
def test_another_user_is_hung_up_on(bare: Starter) -> None:
    # As if directory and socket had been left open to all.
    os.chmod(bare.socket_path.parent, 0o711)
    os.chmod(bare.socket_path, 0o666)

    def as_user(user: int) -> str:
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                STRANGER,
                bare.socket_path.parent,
                bare.socket_path.name,
                str(user),
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=DEADLINE_SECONDS,
        )
        return done.stdout.strip()

    assert as_user(65534) == "heard 0 bytes"
    assert as_user(0) == "ready"
