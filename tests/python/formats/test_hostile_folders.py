"""Directories of checkpoints with damaged, newer, unfinished and hostile folders in them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import paceline.torch as pl
import pytest
import torch
from agent_double import wait_until
from keepers import await_release, end_keepers
from paceline.errors import CheckpointError
from paceline.torch import Checkpointer
from test_ckpt_commands import BINARY, ckpt, told

pytestmark = pytest.mark.usefixtures("own_keeper")


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A directory with steps 0, 1 and 2, of which nothing is in memory: it is a copy."""
    save_three(tmp_path / "first")
    return Path(shutil.copytree(tmp_path / "first", tmp_path / "c"))


def save_three(place: Path) -> None:
    state = {"weight": torch.arange(16.0)}
    with Checkpointer(place, every=1) as one:
        one.restore(state)
        for step in range(3):
            one.save(step, state).wait("durable")
    await_release(place)


def newest_of(place: Path) -> Path:
    return place / (place / "LATEST").read_text().strip()


def states(place: Path) -> dict[str, str]:
    return {one["name"]: one["state"] for one in told("verify", place)["checkpoints"]}


def tear(folder: Path) -> None:
    """Its manifest ends in the middle."""
    manifest = folder / "MANIFEST.json"
    manifest.write_bytes(manifest.read_bytes()[:200])


def restore_in_a_new_process(place: Path) -> subprocess.CompletedProcess[str]:
    """What a new run of a script says."""
    script = (
        "import sys, torch; from paceline.torch import Checkpointer\n"
        "one = Checkpointer(sys.argv[1]); state = {'weight': torch.zeros(16)}\n"
        "print(one.restore(state), one.restored); one.close()\n"
    )
    command = [sys.executable, "-c", script, str(place)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_verify_names_a_newest_folder_that_is_damaged(three: Path) -> None:
    newest = newest_of(three)
    tear(newest)
    done = ckpt("verify", three)
    assert done.returncode == 5, done.stdout
    first, *rest = done.stdout.splitlines()
    assert first == f"{newest.name}: damaged" and "not a JSON object" in rest[0], done.stdout
    assert states(three) == {
        newest.name: "damaged", "step-1-g1": "whole", "step-0-g1": "whole"
    }  # fmt: skip
    assert ckpt("verify", newest).returncode == 5, "named by itself, too"
    for folder in three.glob("step-*"):
        tear(folder)
    done = ckpt("verify", three)
    assert done.returncode == 5 and len(done.stdout.splitlines()) == 6, "none is whole"


def test_verify_names_a_newest_folder_without_its_manifest(three: Path) -> None:
    (newest_of(three) / "MANIFEST.json").unlink()
    done = ckpt("verify", three)
    assert done.returncode == 5 and "LATEST names it, and it has no manifest" in done.stdout


def test_a_folder_that_a_living_job_fills_is_being_written(three: Path) -> None:
    on_its_way = three / "step-7-g1"
    on_its_way.mkdir()
    (on_its_way / "rank-00000.json").write_text("{")
    assert states(three)["step-7-g1"] == "unfinished", "its job has ended"
    assert ckpt("verify", three).returncode == 0, "a save that was cut off is no damage"
    with Checkpointer(three) as one:
        one.restore({"weight": torch.zeros(16)})
        assert states(three)["step-7-g1"] == "being written"
        assert "step-7-g1: being written" in ckpt("verify", three).stdout


def test_copy_and_restore_say_what_they_passed_over(three: Path, tmp_path: Path) -> None:
    newest = newest_of(three)
    tear(newest)
    said = f"passed over {newest.name}: the manifest is not a JSON object"
    answer = told("copy", three, tmp_path / "copy")
    assert answer["to"].endswith("/step-1-g1")
    assert [one["name"] for one in answer["passed_over"]] == [newest.name]
    for words in (["copy", three, tmp_path / "copy"], ["show", three],
                  ["export", three, tmp_path / "out", "--to", "hf", "--entry", "weight"],
                  ["diff", three, three]):
        assert said in ckpt(*words).stderr, words
    done = restore_in_a_new_process(three)
    assert done.stdout.startswith("2 goes on after step 1") and said in done.stdout, done
    assert f"paceline: {said}" in done.stderr


def test_a_newer_version_is_refused_before_anything_goes_on(three: Path) -> None:
    newest = newest_of(three)
    manifest = newest / "MANIFEST.json"
    text = manifest.read_text().replace("paceline.checkpoint/1", "paceline.checkpoint/2")
    manifest.write_text(text)
    before = sorted(path.name for path in three.iterdir())
    for _ in range(2):
        done = restore_in_a_new_process(three)
        assert done.returncode == 1 and "was written by a newer paceline" in done.stderr, done
        assert f"{newest.name}: a newer version of paceline wrote the manifest" in done.stderr
    # The keeper of a script that failed lets go of the directory when it sees the script's end.
    wait_until(lambda: not (three / ".paceline-claim").exists(), "the claim is gone")
    after = sorted(path.name for path in three.iterdir())
    assert after == before and manifest.read_text() == text
    with pytest.raises(CheckpointError, match=r"written by a newer paceline(.|\n)*checkpoint/2"):
        pl.load(three, {"weight": torch.zeros(16)})
    assert states(three)[newest.name] == "newer" and ckpt("verify", three).returncode == 5


def with_notes(
    change: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """As `three`; the newest has other notes, whose hashes hold."""
    make = Checkpointer._notes

    def notes(self: Checkpointer, step: int, entries: dict[str, object]) -> bytes:
        text = make(self, step, entries)
        return change(text) if step == 2 else text

    with monkeypatch.context() as patch:
        patch.setattr(Checkpointer, "_notes", notes)
        save_three(tmp_path / "first")
    return Path(shutil.copytree(tmp_path / "first", tmp_path / "c"))


def test_notes_of_a_newer_version_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = with_notes(lambda text: text.replace(b"notes/1", b"notes/2"), tmp_path, monkeypatch)
    done = ckpt("verify", three)
    assert done.returncode == 5, done.stdout
    assert "rank-00000.json: a newer version of paceline wrote the notes" in done.stdout
    for words in (["export", three, tmp_path / "out", "--to", "hf", "--entry", "weight"],
                  ["diff", three, three / "step-1-g1"]):
        assert "paceline.notes/2" in ckpt(*words).stderr, words
    done = restore_in_a_new_process(three)
    assert done.returncode == 1 and "are paceline.notes/2, and this version reads" in done.stderr
    with pytest.raises(CheckpointError, match="written by a newer paceline"):
        pl.load(three, {"weight": torch.zeros(16)})


@pytest.mark.parametrize("text", [b"root:x:0:0", b"[" * 100_000, b"[]", b'{"schema": 3}'])
def test_notes_that_are_none_are_damage_with_four_parts(
    text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = with_notes(lambda _text: text, tmp_path, monkeypatch)
    newest = newest_of(three)
    with pytest.raises(CheckpointError, match=r"the notes of rank 0 (are|cannot)"):
        pl.load(three, {"weight": torch.zeros(16)})
    done = restore_in_a_new_process(three)
    assert f"step 2 cannot be restored\n  where  {newest}" in done.stderr, done.stderr
    assert ckpt("verify", three).returncode == 5


@pytest.mark.parametrize("shape", [[1 << 33], [1 << 70], [3], ["x"], 7, [16, 1]])
def test_a_shape_that_a_tensor_does_not_have_is_named_and_takes_no_memory(
    shape: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_shape(text: bytes) -> bytes:
        return json.dumps({**json.loads(text), "shapes": {"weight": shape}}).encode()

    three = with_notes(with_shape, tmp_path, monkeypatch)
    # A state that has no such tensor yet, so that the shape decides how large it gets.
    with pytest.raises(CheckpointError, match="the notes of rank 0 give") as caught:
        pl.load(newest_of(three), {"weight": None})
    assert caught.value.where and "weight" in caught.value.why, caught.value


def memory_of(*words: object) -> int:
    """The most memory, in bytes, that `paceline ckpt` had."""
    script = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], capture_output=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)\n"
    )
    command = [sys.executable, "-c", script, str(BINARY), "ckpt", *map(str, words)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("text", ["[", "[],", '{"":'], ids=["deep", "flat", "objects"])
def test_a_manifest_of_brackets_takes_no_memory(three: Path, text: str) -> None:
    manifest = newest_of(three) / "MANIFEST.json"
    size = 16 << 20
    manifest.write_text("[" + text * (size // len(text)))
    assert ckpt("verify", three).returncode == 5
    for words in (["ls", three], ["verify", three], ["show", newest_of(three)]):
        assert memory_of(*words) < 100 << 20, words


def test_a_state_of_too_many_plain_values_is_refused_at_its_save(tmp_path: Path) -> None:
    state = {"seen": [[0]] * 4_100_000}
    with Checkpointer(tmp_path / "c") as one:
        one.restore({"seen": []})
        with pytest.raises(CheckpointError, match=r"too many plain values(.|\n)*into tensors"):
            one.save(0, state)


def restored_from(place: Path) -> str:
    return restore_in_a_new_process(place).stdout


@pytest.mark.parametrize("name", ["shard-00000.safetensors", "rank-00000.json", "MANIFEST.json"])
def test_fifos_are_refused_and_nobody_waits(three: Path, tmp_path: Path, name: str) -> None:
    newest = newest_of(three)
    (newest / name).unlink()
    os.mkfifo(newest / name)
    assert f"{newest.name}: damaged" in ckpt("verify", three).stdout
    assert ckpt("show", newest).returncode == (0 if name == "rank-00000.json" else 2)
    with pytest.raises(CheckpointError, match="is no regular file"):
        pl.load(newest, {"weight": torch.zeros(16)})
    assert "is no regular file" in ckpt("copy", newest, tmp_path / "copy").stderr
    if name == "MANIFEST.json":
        assert restored_from(three).startswith("2 goes on after step 1")


def test_a_link_out_of_a_step_folder_is_refused(three: Path, tmp_path: Path) -> None:
    shard = newest_of(three) / "shard-00000.safetensors"
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    assert "is a link that leaves its folder" in ckpt("verify", three).stdout
    with pytest.raises(CheckpointError, match="is a link that leaves its folder"):
        pl.load(three, {"weight": torch.zeros(16)})


def test_a_checkpoint_is_listed_by_its_own_path(three: Path) -> None:
    newest = newest_of(three)
    assert [one["name"] for one in told("ls", newest)["checkpoints"]] == [newest.name]
    assert ckpt("ls", three / "step-99-g1").returncode == 2


def test_links_to_a_step_folder_and_to_the_directory_are_followed(
    three: Path, tmp_path: Path
) -> None:
    newest = newest_of(three)
    newest.rename(tmp_path / "larger-disk")
    newest.symlink_to(tmp_path / "larger-disk")
    (tmp_path / "link").symlink_to(three)
    for place in (three, tmp_path / "link"):
        assert states(place)[newest.name] == "whole"
        assert told("ls", place)["checkpoints"][0]["name"] == newest.name
        assert told("copy", place, tmp_path / f"copy-{place.name}")["to"].endswith(newest.name)
        assert restored_from(place).startswith("3 goes on after step 2")
    assert ckpt("rm", newest).returncode == 2 and (newest / "MANIFEST.json").exists()


def test_an_import_follows_links_to_regular_files_alone(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    blobs, cache = tmp_path / "blobs", tmp_path / "snapshot"  # as a cache of Hugging Face is
    blobs.mkdir()
    cache.mkdir()
    save_file({"weight": torch.arange(16.0)}, blobs / "abc")
    (cache / "model.safetensors").symlink_to("../blobs/abc")
    assert told("import", cache, tmp_path / "in")["tensors"] == 1
    (cache / "model.safetensors").unlink()
    os.mkfifo(cache / "model.safetensors")
    os.mkfifo(tmp_path / "x.pt")
    for source in (cache, tmp_path / "x.pt", Path("/dev/zero")):
        refused = ckpt("import", source, tmp_path / "in")
        assert refused.returncode == 2 and "error[PL-E083]" in refused.stderr, refused.stderr


def test_a_folder_whose_manifest_cannot_be_read_is_removed(three: Path) -> None:
    names = sorted(states(three))
    newest, middle, oldest = three / names[2], three / names[1], three / names[0]
    tear(newest)
    tear(middle)
    (oldest / "MANIFEST.json").unlink()
    assert list(states(three).values()) == ["damaged", "damaged", "unfinished"]
    # What LATEST names stays named, so that it is still known to be damaged.
    assert ckpt("rm", middle).returncode == 0 and not middle.exists()
    assert states(three) == {newest.name: "damaged", oldest.name: "unfinished"}
    assert ckpt("rm", three, "--step", "2").returncode == 0 and not newest.exists()
    assert ckpt("rm", oldest).returncode == 0 and not oldest.exists()
    assert not (three / "LATEST").exists()
    refused = ckpt("rm", oldest)
    assert refused.returncode == 2 and "error[PL-E080]" in refused.stderr


def test_what_a_living_job_writes_is_not_removed(tmp_path: Path) -> None:
    with Checkpointer(tmp_path / "c", every=1) as one:
        one.save(0, {"weight": torch.ones(1)}).wait("durable")
        (tmp_path / "c" / "step-9-g1").mkdir()
        refused = ckpt("rm", tmp_path / "c" / "step-9-g1")
        assert refused.returncode == 2 and "a living job saves there" in refused.stderr
        assert (tmp_path / "c" / "step-9-g1").is_dir()


def test_a_script_alone_passes_over_what_was_found_damaged(three: Path) -> None:
    newest = newest_of(three)
    shard = newest / "shard-00000.safetensors"
    content = bytearray(shard.read_bytes())
    content[-3] ^= 1
    shard.write_bytes(content)
    found = restore_in_a_new_process(three)
    assert found.returncode == 1 and "start another script again" in found.stderr
    again = restore_in_a_new_process(three)  # the same keeper knows
    assert "2 goes on after step 1" in again.stdout, again.stderr
    end_keepers(Path(os.environ["PACELINE_RUNTIME_DIR"]))
    found = restore_in_a_new_process(three)
    assert found.returncode == 1 and f"paceline ckpt rm {newest}" in found.stderr
    assert ckpt("rm", newest).returncode == 0
    again = restore_in_a_new_process(three)
    assert "2 goes on after step 1" in again.stdout, again.stderr
