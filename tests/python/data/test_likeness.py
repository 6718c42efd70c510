"""What counts as a change of the data, and that finding it out does no harm."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from paceline._data.fingerprint import HASHED_MAX, digest, files_fingerprint
from paceline.sources.lines import Lines

from paceline.data import DataError, ElasticDataset, ElasticLoader, ElasticMixture, LeasedLoader


class Records:
    """Any function of the index, and how often it was called."""

    def __init__(self, make: Any, count: int = 20) -> None:
        self.make, self.count = make, count
        self.reads: list[int] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        self.reads.append(index)
        return self.make(index)


def state_of(data: Any) -> Any:
    return ElasticLoader(data, global_batch=2).state_dict()


def restore(state: Any, data: Any) -> None:
    ElasticLoader(data, global_batch=2).load_state_dict(state)


def refusal(state: Any, data: Any) -> str:
    with pytest.raises(DataError) as caught:
        restore(state, data)
    assert caught.value.what == "the data changed since the checkpoint was saved"
    return str(caught.value)


def test_no_record_is_read_unless_that_is_asked_for() -> None:
    for looks_at in (True, False):
        records = Records(lambda i: i)
        restore(state_of(ElasticDataset(records, fingerprint=looks_at)), ElasticDataset(records))
        with LeasedLoader(ElasticDataset(records, fingerprint=looks_at)) as loader:
            next(iter(loader))
        assert len(records.reads) == 1, "the sample of the loop"


def test_other_values_of_records_are_refused() -> None:
    state = state_of(ElasticDataset(Records(lambda i: i), fingerprint="records"))
    other = ElasticDataset(Records(lambda i: 77 if i == 19 else i), fingerprint="records")
    told = refusal(state, other)
    assert "record 19 is" in told
    assert "fingerprint=False" in told, "the way out"
    restore(state, ElasticDataset(Records(lambda i: 77)))
    shorter = refusal(state, ElasticDataset(Records(lambda i: i, count=19), fingerprint=False))
    assert "fingerprint=False" not in shorter, "that would change nothing"


def test_objects_are_compared_by_value() -> None:
    numpy = pytest.importorskip("numpy")

    def row(index: int) -> Any:
        return numpy.array([f"word {index}", index, None], dtype=object)

    state = state_of(ElasticDataset(Records(row), fingerprint="records"))
    restore(state, ElasticDataset(Records(row), fingerprint="records"))
    assert digest(row(3)) != digest(row(4))
    told = refusal(state, ElasticDataset(Records(lambda i: row(i + 1)), fingerprint="records"))
    assert "record 0 is" in told


@pytest.mark.parametrize("chance", [0.02, 0.1, 0.5, 0.9])
def test_random_transforms_are_no_change_of_the_data(chance: float) -> None:
    """Also where all reads of a record happen to be the same at the save."""
    for seed in range(10):
        random.seed(seed)
        made = random.Random(seed)
        records = Records(lambda i, m=made: (i, m.random() < chance))
        state = state_of(ElasticDataset(records, fingerprint="records"))
        reads = len(records.reads)
        restore(state, ElasticDataset(records, fingerprint="records"))
        assert len(records.reads) > reads, "the records were compared"


def test_looking_at_the_data_draws_nothing_from_the_script() -> None:
    random.seed(1)
    before = random.getstate()
    state = state_of(ElasticDataset(Records(lambda i: i + random.random()), fingerprint="records"))
    assert random.getstate() == before
    assert state["fingerprint"]["records"] == {}, "what is never the same is not compared"


def test_a_record_that_cannot_be_read_ends_nothing() -> None:
    def broken(index: int) -> int:
        if index == 0:
            raise OSError("truncated")
        return index

    state = state_of(ElasticDataset(Records(broken), fingerprint="records"))
    assert sorted(state["fingerprint"]["records"]) == ["12", "19", "6"]
    whole = state_of(ElasticDataset(Records(lambda i: i), fingerprint="records"))
    restore(whole, ElasticDataset(Records(broken), fingerprint="records"))


def test_sparse_tensors_are_records() -> None:
    torch = pytest.importorskip("torch")
    made = Records(lambda i: torch.eye(4).mul(i).to_sparse())
    state = state_of(ElasticDataset(made, fingerprint="records"))
    assert len(state["fingerprint"]["records"]) == 4
    restore(state, ElasticDataset(made, fingerprint="records"))


class Process:
    """Record 0 is the process that reads it; it counts what the worker's set-up has set."""

    def __init__(self, log: Path) -> None:
        self.log, self.ready = log, False

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        with self.log.open("a") as log:
            log.write(f"{os.getpid()} {self.ready}\n")
        return index


def set_up(_worker: int) -> None:
    from torch.utils.data import get_worker_info

    info = get_worker_info()
    assert info is not None
    vars(info.dataset)["_inner"].ready = True


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_records_are_read_in_a_process_like_a_worker_that_has_ended(
    tmp_path: Path, method: str
) -> None:
    pytest.importorskip("torch")
    from paceline.torch import ElasticLoader as TorchLoader

    data = ElasticDataset(Process(tmp_path / "log"), fingerprint="records")
    loader = TorchLoader(data, global_batch=4, num_workers=1, worker_init_fn=set_up,
                         multiprocessing_context=method)
    loader.state_dict()
    reads = {tuple(line.split()) for line in (tmp_path / "log").read_text().splitlines()}
    ((pid, ready),) = reads
    assert int(pid) != os.getpid() and ready == "True"
    assert not os.path.exists(f"/proc/{pid}"), "it has ended"
    list(loader)
    assert len((tmp_path / "log").read_text().splitlines()) == 12 + 8, "looked at once"


@pytest.fixture
def files(tmp_path: Path) -> Sequence[Path]:
    for i in range(3):
        text = "".join(f"{i} {n} text\n" for n in range(20_000 + i))
        (tmp_path / f"f{i}").write_text(text)
    return sorted(tmp_path.iterdir())


def test_the_same_bytes_at_another_time_are_the_same_data(files: Sequence[Path]) -> None:
    state = state_of(ElasticDataset(Lines(files)))
    for path in files:
        os.utime(path, ns=(1, 1))
    restore(state, ElasticDataset(Lines(files)))
    with LeasedLoader(ElasticDataset(Lines(files)), name="a") as one:
        before = one._terms()
    os.utime(files[0], ns=(2, 2))
    with LeasedLoader(ElasticDataset(Lines(files)), name="a") as one:
        assert one._terms() == before, "a worker on another host works on the same data"


@pytest.mark.parametrize("place", [0, 0.5, 1])
def test_a_file_of_equal_size_with_other_bytes_is_refused(
    files: Sequence[Path], place: float
) -> None:
    state = state_of(ElasticDataset(Lines(files)))
    content = bytearray(files[1].read_bytes())
    at = int(place * (len(content) - 2))
    content[at] = content[at] ^ 1
    files[1].write_bytes(content)
    told = refusal(state, ElasticDataset(Lines(files)))
    assert f"1:f1 has as many bytes, {len(content)}, but other ones" in told
    assert "fingerprint=False" in told
    restore(state, ElasticDataset(Lines(files), fingerprint=False))


def test_a_file_of_another_size_is_refused_by_its_name(files: Sequence[Path]) -> None:
    data = ElasticMixture({"a": Lines(files[:1]), "b": Lines(files[1:])}, weights={"a": 1, "b": 1})
    state = state_of(data)
    size = files[1].stat().st_size
    files[1].write_bytes(files[1].read_bytes()[:-1] + b"!\n")
    again = ElasticMixture({"a": Lines(files[:1]), "b": Lines(files[1:])},
                           weights={"a": 1, "b": 1})
    assert f"b: 0:f1 has {size + 1} bytes, and had {size}" in refusal(state, again)


def test_notes_from_before_there_were_hashes_compare_sizes(files: Sequence[Path]) -> None:
    state = state_of(ElasticDataset(Lines(files)))
    own = state["fingerprint"]["own"]
    for name in [name for name in own if ":" in name]:
        own[name] = f"{own[name]['bytes']} bytes of 1795506416653249767 ns"
    restore(state, ElasticDataset(Lines(files)))
    own["1:f1"] = "7 bytes of 1795506416653249767 ns"
    assert "1:f1 has" in refusal(state, ElasticDataset(Lines(files)))


def test_files_of_a_users_data_set_are_compared_with_its_records(files: Sequence[Path]) -> None:
    class Files:
        def __init__(self) -> None:
            self.files = list(files)

        def __len__(self) -> int:
            return len(self.files)

        def __getitem__(self, index: int) -> bytes:
            return self.files[index].read_bytes()[:1]

    state = state_of(ElasticDataset(Files(), fingerprint="records"))
    with files[1].open("a") as file:
        file.write("more")
    assert "file f1 has" in refusal(state, ElasticDataset(Files(), fingerprint="records"))
    restore(state, ElasticDataset(Files()))


def test_of_many_files_some_are_hashed(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{i}") for i in range(HASHED_MAX + 20)]
    for path in paths:
        Path(path).write_text(path)
    found = files_fingerprint(paths)
    assert len(found) == len(paths)
    hashed = [name for name, about in found.items() if "ends" in about]  # pyright: ignore
    assert len(hashed) == HASHED_MAX
    assert {hashed[0], hashed[-1]} == {"0:0", f"{len(paths) - 1}:{len(paths) - 1}"}


def test_a_lazily_opened_file_below_a_wrapper_is_not_shared_by_workers(tmp_path: Path) -> None:
    """Its place in the file would be one for all workers, so that they read each other's bytes."""
    torch = pytest.importorskip("torch")
    from paceline.torch import ElasticLoader as TorchLoader

    class Lazy:
        file: Any = None

        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> int:
            self.file = self.file or (tmp_path / "log").open("w")
            return index

    for looks_at in (True, "records"):
        lazy: Any = Lazy()
        wrapped = torch.utils.data.ConcatDataset([torch.utils.data.Subset(lazy, range(8))])
        data = ElasticDataset(wrapped, fingerprint=looks_at)  # pyright: ignore
        loader = TorchLoader(data, global_batch=4, num_workers=2)
        loader.load_state_dict(loader.state_dict())
        assert sorted(i for batch in loader for i in batch.tolist()) == list(range(8))
        assert lazy.file is None, "opened in workers only"
