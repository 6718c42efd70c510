"""The store is waited for in small steps, and torch's own error is what a user sees."""

import os
import socket
import subprocess
import sys
import threading
import types
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from free_ports import free_port
from paceline._rank import store
from paceline._rank.hooks.on_import import when_imported


def listener() -> socket.socket:
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    return held


def test_it_returns_when_somebody_listens() -> None:
    with listener() as late:
        timer = threading.Timer(0.05, late.listen)
        timer.start()
        assert store.wait_until_served("127.0.0.1", late.getsockname()[1], 30.0)
        timer.join()


def test_it_gives_up_when_nobody_does() -> None:
    with listener() as silent:
        assert not store.wait_until_served("127.0.0.1", silent.getsockname()[1], 0.05)


@pytest.mark.parametrize(("rank", "agent_store", "waits"), [
    (1, "False", True), (0, "False", False), (1, "True", False)])
def test_only_clients_of_a_rank_wait(
    monkeypatch: pytest.MonkeyPatch, rank: int, agent_store: str, waits: bool
) -> None:
    asked: list[tuple[str, int]] = []
    made: list[tuple[Any, ...]] = []
    module = types.ModuleType("torch.distributed.rendezvous")
    monkeypatch.setattr(module, "_create_c10d_store", lambda *args: made.append(args),
                        raising=False)
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    monkeypatch.setattr(store, "wait_until_served",
                        lambda host, port, _timeout: asked.append((host, port)))
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", agent_store)
    store.be_patient()
    module._create_c10d_store("h", 5, rank, 2, timedelta(seconds=9), True)
    assert asked == ([("h", 5)] if waits else [])
    assert made == [("h", 5, rank, 2, timedelta(seconds=9), True)]


@pytest.mark.parametrize(("host", "port", "told", "place"), [
    ("h", 29500, "", ("h", 29500)),
    ("h", 29500, "29500 10.0.0.1 17001", ("10.0.0.1", 17001)),
    ("localhost", 29500, "29500 fe80::1 17001", ("fe80::1", 17001)),
    ("h", 29501, "29500 10.0.0.1 17001", ("h", 29501)),
    ("h", 29500, "29500 10.0.0.1", ("h", 29500)),
])
def test_the_port_that_ranks_see_stands_for_the_store_of_this_world(
    host: str, port: int, told: str, place: tuple[str, int]
) -> None:
    assert store.place_of(host, port, told) == place


def test_children_without_the_wrapper_get_the_port_of_the_store(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_PORT", "29500")
    monkeypatch.setenv("PACELINE_STORE", "29500 10.0.0.1 17001")
    store.be_patient()
    assert os.environ["MASTER_PORT"] == "29500"
    told = subprocess.run([sys.executable, "-c", "import os; print(os.environ['MASTER_PORT'])"],
                          capture_output=True, text=True, check=True)
    assert told.stdout == "17001\n"


def listening_at(port: int) -> list[str]:
    """The addresses on which this process listens at that port."""
    own: set[str] = set()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the descriptor of the listing itself is gone
            own.add(os.readlink(f"/proc/self/fd/{fd}"))
    found: list[str] = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            words = line.split()
            address, _, at = words[1].rpartition(":")
            is_own = f"socket:[{words[9]}]" in own
            if words[3] == "0A" and int(at, 16) == port and is_own:
                found.append(address)
    return found


@pytest.mark.parametrize("libuv", [True, False])
def test_the_store_of_one_host_is_not_reached_from_others(libuv: bool) -> None:
    distributed = pytest.importorskip("torch.distributed")
    make = store.on_loopback(distributed.TCPStore)
    port = free_port()
    server = make(host_name="127.0.0.1", port=port, world_size=1, is_master=True,
                  timeout=timedelta(seconds=30), multi_tenant=True, use_libuv=libuv)
    server.set("key", "value")
    assert listening_at(port) == ["0100007F"]
    client = make("127.0.0.1", port, None, False, timeout=timedelta(seconds=30))
    assert client.get("key") == b"value"
    again = make("127.0.0.1", port, 1, True, timeout=timedelta(seconds=30), multi_tenant=True,
                 use_libuv=libuv)  # torch gives the same server
    assert again.get("key") == b"value"


@pytest.mark.parametrize("version", ["2.4.1+cu121", "2.7.0", "2.99.0"])
def test_older_torch_serves_without_libuv(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server with libuv takes no socket, and init_process_group would fail on one host."""
    torch = types.ModuleType("torch")
    vars(torch)["__version__"] = version
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)
    tried: list[bool] = []

    def make(*_given: Any, use_libuv: bool, master_listen_fd: int, **_named: Any) -> str:
        tried.append(use_libuv)
        if use_libuv:
            raise NotImplementedError("listen fd")
        os.close(master_listen_fd)
        return "server"

    assert store.on_loopback(make)("127.0.0.1", free_port(), 2, True, use_libuv=True) == "server"
    assert tried == ([True, False] if version == "2.99.0" else [False]), "without torch's error"


def test_other_stores_are_made_as_torch_makes_them() -> None:
    made: list[dict[str, Any]] = []
    make = store.on_loopback(lambda *_given, **named: made.append(named))
    make("10.0.0.1", 17001, 2, True)
    make("127.0.0.1", 17001, 2, False)
    make("127.0.0.1", 0, 2, True)
    assert made == [{}, {}, {}]


def test_a_later_store_at_one_address_has_keys_of_its_own() -> None:
    rounds = store.Rounds(lambda prefix, inner: (prefix, inner))
    assert [rounds.keep(n, "h", 1, 2) for n in "abc"] == ["a", ("again-1", "b"), ("again-2", "c")]
    assert rounds.keep("d", "h", 1, 4) == "d", "a group of another size meets for the first time"
    assert rounds.keep("e", "h", 2, 2) == "e"


def test_a_release_without_that_function_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("torch.distributed.rendezvous")
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    store.be_patient()
    assert not hasattr(module, "_create_c10d_store")


def test_a_module_is_told_of_once_it_is_imported(tmp_path: Any,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "late_module.py").write_text("value = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[int] = []
    when_imported("late_module", lambda module: seen.append(module.value))
    assert seen == []
    __import__("late_module")
    assert seen == [3]
