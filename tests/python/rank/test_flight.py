"""What a rank records of its collectives, from an unmodified script."""

import importlib
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from flight_world import Rank, line_of, run_ranks
from paceline._rank.flight import Flight
from paceline._rank.hooks import collective_methods
from paceline._rank.hooks.collective_recorder import Follower, members_text
from paceline._rank.hooks.collectives import NAMES
from paceline._rank.hooks.on_import import when_imported
from warm_process import Warm, warm_fixture

from paceline import _native

warm = warm_fixture("torch", "torch.distributed")

# One collective a line. What is recorded of it: its operation, bytes and dtype, in that order.
EVERY = """
x = torch.ones(4)
pair = [torch.ones(4), torch.ones(4)]
two = [torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)]
dist.all_reduce(x)  # all_reduce 16 float32
dist.all_reduce(x.to(torch.bfloat16))  # all_reduce 8 bfloat16
dist.broadcast(x, 0)  # broadcast 16 float32
dist.barrier()  # barrier 0 -
dist.reduce(x, 0)  # reduce 16 float32
dist.all_gather(pair, x)  # all_gather 16 float32
dist.all_gather_into_tensor(torch.ones(8), x)  # all_gather_into_tensor 16 float32
dist.reduce_scatter(two[0], two)  # reduce_scatter 32 float64
dist.reduce_scatter_tensor(torch.ones(2), x)  # reduce_scatter_tensor 16 float32
dist.all_to_all(pair, pair)  # all_to_all 32 float32
dist.all_to_all_single(torch.ones(4), x)  # all_to_all_single 16 float32
dist.gather(x, pair if rank == 0 else None)  # gather 16 float32
dist.all_reduce_coalesced([x, x])  # all_reduce_coalesced 32 float32
dist.all_gather_coalesced([pair, pair], [x, x])  # all_gather_coalesced 32 float32
dist.all_reduce(x, async_op=True).wait()  # all_reduce 16 float32
"""


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    return run_ranks(tmp_path_factory.mktemp("every"), EVERY + "dist.barrier()", ranks=2)


def test_every_collective_is_recorded_with_what_it_moves_and_its_line(every: list[Rank]) -> None:
    lines = [line for line in EVERY.splitlines() if "  # " in line]
    assert all(len(rank.collectives) == len(lines) + 1 for rank in every)
    for rank in every:
        for number, (line, entry) in enumerate(zip(lines, rank.collectives, strict=False), 1):
            operation, size, dtype = line.partition("  # ")[2].split()
            assert entry["operation"] == operation
            assert (entry["bytes"], entry["dtype"] or "-") == (int(size), dtype), line
            assert (entry["group"], entry["sequence"]) == ("0 0-1", number), line
            assert entry["site"] == line_of(EVERY, line, ranks=2)
            assert 0 < entry["begun_ns"] <= entry["completed_ns"], line


def test_ranks_number_the_collectives_of_a_group_alike(every: list[Rank]) -> None:
    def numbers(rank: Rank) -> list[tuple[str, int, str]]:
        return [(e["group"], e["sequence"], e["operation"]) for e in rank.collectives]

    assert numbers(every[0]) == numbers(every[1])
    assert [rank.ring["open"] for rank in every] == [0, 0]


GROUPS = """
x = torch.ones(4)
alone = [dist.new_group([0]), dist.new_group([1])][rank]
dist.all_reduce(x, group=alone)
both = dist.new_group([1, 0])
dist.all_reduce(x, group=both)
dist.barrier(group=both)
if hasattr(dist, "split_group"):
    try:
        part = dist.split_group(split_ranks=[[0], [1]])
    except (RuntimeError, NotImplementedError) as error:
        print("split refused:", error)
    else:
        dist.broadcast(x, rank, group=part)
        print("split")
dist.all_reduce(x)
dist.barrier()
"""


def test_each_group_counts_for_itself(tmp_path: Path, warm: Warm) -> None:
    for number, rank in enumerate(run_ranks(tmp_path, GROUPS, ranks=2, warm=warm)):
        found = [(e["operation"], e["group"], e["sequence"]) for e in rank.collectives]
        assert found[0] == ("all_reduce", f"{number + 1} {number}", 1)
        assert found[1:3] == [("all_reduce", "3 0-1", 1), ("barrier", "3 0-1", 2)]
        assert found[-2:] == [("all_reduce", "0 0-1", 1), ("barrier", "0 0-1", 2)]
        if rank.out == "split\n":
            operation, group, sequence = found[3]
            assert (operation, group.split()[1], sequence) == ("broadcast", str(number), 1)


POINT_TO_POINT = """
x = torch.ones(4)
dist.all_reduce(x)
if rank == 0:
    dist.send(x, 1)
    dist.recv(x)
else:
    dist.recv(x, 0)
    dist.send(x, 0)
ops = [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, torch.ones(4), 1 - rank)]
for work in dist.batch_isend_irecv(ops):
    work.wait()
dist.all_reduce(x)
"""


def test_sends_and_receives_are_not_counted(tmp_path: Path, warm: Warm) -> None:
    for rank in run_ranks(tmp_path, POINT_TO_POINT, ranks=2, warm=warm):
        calls = rank.entries(2)
        assert sorted(e["operation"] for e in calls) == ["recv", "recv", "send", "send"]
        assert {e["sequence"] for e in calls} == {0}
        assert [e["sequence"] for e in rank.collectives] == [1, 2]


BUILT_IN = """
import torch.distributed._functional_collectives as functional
y = functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD) + 1
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
dist.barrier()
print(len(entries()))
for _ in range(2):
    model(torch.ones(2, 4)).sum().backward()
"""


def test_functional_collectives_and_those_of_ddp_are_recorded(tmp_path: Path, warm: Warm) -> None:
    for rank in run_ranks(tmp_path, BUILT_IN, ranks=2, warm=warm):
        first, *_ = rank.collectives
        assert (first["operation"], first["bytes"]) == ("all_reduce", 16)
        assert first["site"] == line_of(BUILT_IN, "y = functional", ranks=2)
        reduced = [e for e in rank.collectives[int(rank.out) :] if e["operation"] == "all_reduce"]
        assert [e["bytes"] for e in reduced] == [80, 80]
        assert {e["site"] for e in reduced} == {line_of(BUILT_IN, ".backward()", ranks=2)}


LATE = """
x = torch.ones(4)
if rank == 0:
    work = dist.all_reduce(x, async_op=True)
    assert [e["completed_ns"] for e in entries()] == [0] and reading()["open"] == 1
    store.set("seen", "1")
    work.wait()
    wait_until(lambda: entries()[0]["completed_ns"] > 0)
    assert reading()["open"] == 0
else:
    store.wait(["seen"])
    dist.all_reduce(x)
dist.barrier()
"""


def test_a_collective_is_complete_only_when_the_peer_has_come(tmp_path: Path, warm: Warm) -> None:
    for rank in run_ranks(tmp_path, LATE, ranks=2, warm=warm):
        assert all(entry["completed_ns"] for entry in rank.collectives)


MANY = """
many = [torch.ones(1) for _ in range(70)]
if rank == 0:
    works = [dist.all_reduce(x, async_op=True) for x in many]
    assert reading()["open"] == 64, reading()["open"]
    open_ones = [e["sequence"] for e in entries() if e["completed_ns"] == 0]
    assert open_ones == list(range(7, 71)), open_ones
    store.set("seen", "1")
else:
    store.wait(["seen"])
    works = [dist.all_reduce(x, async_op=True) for x in many]
for work in works:
    work.wait()
wait_until(lambda: reading()["open"] == 0)
dist.barrier()
"""


def test_of_many_open_collectives_the_newest_are_followed(tmp_path: Path, warm: Warm) -> None:
    for rank in run_ranks(tmp_path, MANY, ranks=2, warm=warm):
        assert len(rank.collectives) == 71


FORK = """
import os
torch.save({}, "before.pt")
if os.fork() == 0:
    torch.save({}, "child.pt")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dist.all_reduce(torch.ones(4))
    os._exit(0)
_, status = os.wait()
assert status == 0
"""


def test_a_forked_child_writes_nothing(tmp_path: Path, warm: Warm) -> None:
    (rank,) = run_ranks(tmp_path, FORK, warm=warm)
    assert rank.collectives == []
    assert rank.phases == ["checkpoint", "unknown"]
    assert (tmp_path / "child.pt").exists()


class LateWork:
    """A Work that is complete when the test says so."""

    def __init__(self, *, has_future: bool = True) -> None:
        self.is_done = False
        self._has_future = has_future

    def is_completed(self) -> bool:
        return self.is_done

    def get_future(self) -> object:
        if not self._has_future:
            raise RuntimeError("Work::getFuture not implemented.")
        return object()


def make_flight(folder: Path) -> Flight:
    return Flight(_native.FlightWriter.make(str(folder / "ring"), 1, 0))


def unattended(flight: Flight, monkeypatch: pytest.MonkeyPatch) -> Follower:
    """A follower without its thread, which would look by the clock: only the test looks."""
    monkeypatch.setattr(Follower, "_begin", lambda _self: None)
    return Follower(flight)


class Ring:
    """A ring and a recorder of one group, in this process."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = folder / "ring"
        self.follower = unattended(make_flight(folder), monkeypatch)
        self.works = self.follower.works
        self.recorder = self.follower.recorder(str, lambda: "0 0-1")

    def call(self, work: Any, operation: str = "all_reduce") -> None:
        self.recorder.end(self.recorder.begin(operation, []), operation, work)

    def complete(self) -> list[bool]:
        return [entry["completed_ns"] != 0 for entry in self.entries()]

    def entries(self) -> Any:
        return _native.read_ring(self._path.read_bytes())["entries"]


def test_a_work_that_is_complete_late_is_recorded_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring, works = Ring(tmp_path, monkeypatch), [LateWork(), LateWork(), LateWork()]
    for work in works:
        ring.call(work)
    ring.works.look_at_all()
    assert ring.complete() == [False, False, False]
    works[1].is_done = True  # out of order
    ring.works.look()
    assert ring.complete() == [False, False, False], "up to the first that is not"
    ring.works.look_at_all()
    assert ring.complete() == [False, True, False]
    works[0].is_done = True
    ring.call(LateWork())
    assert ring.complete() == [True, True, False, False], "a call looks at the oldest"


def test_a_work_that_never_says_so_is_complete_when_the_next_call_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring, work = Ring(tmp_path, monkeypatch), LateWork(has_future=False)
    ring.call(work, "reduce_scatter")
    ring.works.look_at_all()
    assert ring.complete() == [False]
    ring.call(LateWork())
    assert ring.complete() == [True, False]


def test_a_work_of_a_failed_device_is_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(LateWork):
        def is_completed(self) -> bool:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    ring = Ring(tmp_path, monkeypatch)
    ring.call(Broken())
    ring.works.look_at_all()
    assert ring.complete() == [False]


def hook(operation: str, *, tensors: list[Any], is_async: bool, work: Any = None) -> Any:
    """What torch passes to a hook."""
    return SimpleNamespace(name=SimpleNamespace(name=operation, value=ord(operation[0])),
                           async_op=is_async, input_tensors=tensors, output_tensors=[], work=work)


def test_the_end_of_the_scripts_own_wait_is_the_end_of_the_collective(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = Ring(tmp_path, monkeypatch)
    work: Any = LateWork()
    waits: Any = ring.works.wrap_wait(lambda _self, timeout=None: timeout)
    monkeypatch.setattr(LateWork, "wait", waits, raising=False)
    before, after = ring.recorder.before, ring.recorder.after
    call = hook("a", tensors=[Bytes()], is_async=False, work=work)
    before(call)
    after(call)
    assert ring.complete() == [False]
    threading.Thread(target=work.wait).start()  # of another thread: it waits for something else
    assert work.wait(timeout=3) == 3
    assert ring.complete() == [True]
    # Nobody waits for it, so the next call of the thread is its end.
    before(call)
    after(call)
    before(hook("b", tensors=[], is_async=False))
    after(hook("b", tensors=[], is_async=False, work=work))
    assert ring.complete() == [True, True, False]
    work.wait()
    assert ring.complete()[2] is False, "no tensor on the host: its Work says when"
    work.is_done = True
    ring.works.look()
    assert ring.complete()[2] is True
    assert [e["bytes"] for e in ring.entries()] == [8, 8, 0]


def test_a_wait_for_a_device_is_not_the_end_of_the_collective(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring, work, tensor = Ring(tmp_path, monkeypatch), LateWork(), Bytes()
    monkeypatch.setattr(LateWork, "wait", ring.works.wrap_wait(lambda _self: True), raising=False)
    for is_on_host, is_async in ((False, False), (True, True)):
        tensor.is_cpu = is_on_host
        call = hook("a", tensors=[tensor], is_async=is_async, work=work)
        ring.recorder.before(call)
        ring.recorder.after(call)
        cast(Any, work).wait()
    assert ring.complete() == [False, False]


def test_a_call_that_raises_ends_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring, tensors = Ring(tmp_path, monkeypatch), [Bytes()]
    ring.recorder.before(hook("a", tensors=tensors, is_async=False))
    ring.recorder.before(object())  # a torch whose hooks have other arguments
    ring.recorder.after(object())
    assert ring.complete() == [True, True]


class OldGroup:
    """Plays the process group of a torch without hooks."""

    def size(self) -> int:
        return 2

    def allreduce(self, tensors: list[Any], _options: object = None) -> LateWork:
        if not tensors:
            raise RuntimeError("no tensors")
        return LateWork()

    def scatter(self, outputs: list[Any], inputs: list[list[Any]]) -> None: ...

    def barrier(self, opts: object = None) -> None: ...

    def send(self, tensors: list[Any], _rank: int, _tag: int) -> LateWork:
        return LateWork()


class Bytes:
    """As much of a tensor as a record takes."""

    dtype = "torch.int8"

    nbytes = 8
    is_cpu = True


def test_the_methods_of_a_torch_without_hooks_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring, flight, tensor = tmp_path / "ring", make_flight(tmp_path), Bytes()
    follower = unattended(flight, monkeypatch)
    group, other, unknown = OldGroup(), OldGroup(), OldGroup()
    world = SimpleNamespace(
        pg_names={group: "0", other: "3"}, pg_group_ranks={group: {0: 0, 1: 1}, other: {4: 0, 6: 1}}
    )
    patched = type("Patched", (OldGroup,), {})
    collective_methods.patch(SimpleNamespace(ProcessGroup=patched, _world=world), follower)
    for one in (group, other, unknown):
        monkeypatch.setattr(one, "__class__", patched)
    group.allreduce([tensor])
    group.scatter([tensor], [])
    group.scatter([tensor], [[tensor, tensor]])
    group.barrier(opts=None)
    group.send([tensor], 1, 0)
    with pytest.raises(RuntimeError, match="no tensors"):
        other.allreduce([])
    unknown.barrier()
    entries: Any = _native.read_ring(ring.read_bytes())["entries"]
    assert [
        (e["group"], e["sequence"], e["operation"], e["bytes"], e["completed_ns"] != 0)
        for e in entries
    ] == [
        ("0 0-1", 1, "all_reduce", 8, False),
        ("0 0-1", 2, "scatter", 8, True),
        ("0 0-1", 3, "scatter", 16, True),
        ("0 0-1", 4, "barrier", 0, True),
        ("0 0-1", 0, "send", 8, False),
        ("3 4,6", 1, "all_reduce", 0, True),
        (" 0-1", 1, "barrier", 0, True),
    ]


def test_every_operation_of_torch_has_the_name_of_its_function() -> None:
    torch_c10d = pytest.importorskip("torch._C._distributed_c10d")
    distributed = pytest.importorskip("torch.distributed")
    functional = pytest.importorskip("torch.distributed._functional_collectives")
    hooks = getattr(torch_c10d, "HookOpName", None)
    if hooks is None:
        pytest.skip("this torch has no hooks")
    assert set(hooks.__members__) == set(NAMES)
    for name in set(NAMES.values()) - {"unknown", "new_window"}:
        assert hasattr(distributed, name) or hasattr(functional, name), name


def test_members_are_written_as_runs() -> None:
    assert members_text([0, 1, 2, 8]) == "0-2,8"
    assert members_text([5]) == "5"
    assert members_text([3, 1, 0, 6, 7]) == "0-1,3,6-7"


def test_all_who_wait_for_one_module_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flight_waited_for.py").write_text("VALUE = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    called: list[tuple[str, int]] = []
    when_imported("flight_waited_for", lambda module: called.append(("first", module.VALUE)))
    when_imported("flight_waited_for", lambda module: called.append(("second", module.VALUE)))
    assert called == []
    importlib.import_module("flight_waited_for")
    assert called == [("first", 3), ("second", 3)]
    when_imported("flight_waited_for", lambda module: called.append(("third", module.VALUE)))
    assert called[2:] == [("third", 3)]
