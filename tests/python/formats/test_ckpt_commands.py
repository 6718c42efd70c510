"""`paceline ckpt export`, `import` and `diff`: other programs load what comes out of them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from dcp_alone import ALONE
from jsonschema import Draft202012Validator
from paceline.torch import Checkpointer
from small_training import goes_on_alike, make, same, train
from torch.distributed import checkpoint as dcp

BINARY = Path(sys.executable).parent / "paceline"
SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "schemas"
pytestmark = [
    pytest.mark.usefixtures("own_keeper"),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled"),
]
Saved = tuple[Path, torch.nn.Module, torch.optim.Optimizer]


def ckpt(*words: object) -> subprocess.CompletedProcess[str]:
    command = [BINARY, "ckpt", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def told(*words: object) -> dict[str, Any]:
    done = ckpt("--json", *words)
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    schema = SCHEMAS / f"{answer['schema'].removeprefix('paceline.').removesuffix('/1')}.json"
    Draft202012Validator(json.loads(schema.read_text())).validate(answer)
    return answer


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    torch.manual_seed(1)
    net, optimizer = make()
    state = {"model": net, "optimizer": optimizer, "seen": {"files": (1, 2)}}
    with Checkpointer(tmp_path / "c", every=1) as one:
        one.restore(state)
        for step in (0, 1):
            train(net, optimizer, 1)
            one.save(step, state).wait("durable")
    return tmp_path / "c", net, optimizer


def test_a_hugging_face_folder(saved: Saved, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    path, net, _ = saved
    out = tmp_path / "hf"
    answer = told("export", path, out, "--to", "hf")
    assert answer["tensors"] == len(net.state_dict()) and answer["left_out"] > 0
    assert answer["files"] == ["model.safetensors"]
    assert [one.name for one in out.iterdir()] == answer["files"]
    assert same(load_file(out / "model.safetensors"), dict(net.state_dict()))
    assert ckpt("export", path, out, "--to", "hf").returncode == 2, "never over something"


def test_a_hugging_face_folder_of_several_files(saved: Saved, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    path, net, _ = saved
    out = tmp_path / "hf"
    answer = told("export", path, out, "--to", "hf", "--max-file", "100B")
    assert len(answer["files"]) > 1
    index = json.loads((out / "model.safetensors.index.json").read_text())
    found: dict[str, torch.Tensor] = {}
    for name in sorted(set(index["weight_map"].values())):
        loaded = load_file(out / name)
        assert all(index["weight_map"][key] == name for key in loaded)
        found |= loaded
    assert same(found, dict(net.state_dict())) and set(found) == set(index["weight_map"])
    size = sum(tensor.nbytes for tensor in found.values())
    assert index["metadata"]["total_size"] == answer["bytes"] == size


def test_what_cannot_be_exported_is_said(saved: Saved, tmp_path: Path) -> None:
    path, out = saved[0], tmp_path / "out"
    refused = ckpt("export", path, out, "--to", "hf", "--entry", "net")
    assert refused.returncode == 2 and "there are model, optimizer" in refused.stderr
    assert "--entry" in refused.stderr
    full = ckpt("export", path, path, "--to", "hf")
    assert "name a folder that is new or empty" in full.stderr and "--entry" not in full.stderr
    assert "--to hf" in ckpt("export", path, out).stderr
    missing = ckpt("export", path, out, "--to", "hf", "--step", "9")
    assert "no checkpoint in it is of step 9" in missing.stderr
    (newest,) = path.glob("step-1-*")
    victim = newest / "shard-00000.safetensors"
    text = bytearray(victim.read_bytes())
    text[-1] ^= 1
    victim.write_bytes(text)
    for kind in ("hf", "dcp"):
        refused = ckpt("export", path, tmp_path / kind, "--to", kind)
        assert refused.returncode == 2 and "error[PL-E082]" in refused.stderr, refused.stderr
        assert "--entry" not in refused.stderr, refused.stderr
    older = told("export", path, out, "--to", "hf", "--step", "0")
    assert older["from"].endswith("step-0-g1") or "/step-0-g" in older["from"]


def test_transformers_loads_the_folder(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=32, n_positions=16)
    torch.manual_seed(1)
    net = transformers.GPT2LMHeadModel(config)  # two of its tensors are one
    with Checkpointer(tmp_path / "c") as one:
        one.restore({"model": net})
        one.save(0, {"model": net})
    for name, size in (("whole", "5GB"), ("cut", "2KB")):
        out = tmp_path / name
        done = ckpt("export", tmp_path / "c", out, "--to", "hf", "--max-file", size)
        assert done.returncode == 0, done.stderr
        config.save_pretrained(out)
        back, notes = transformers.GPT2LMHeadModel.from_pretrained(out, output_loading_info=True)
        assert not notes["missing_keys"] and not notes["unexpected_keys"]
        assert same(net, back)


def test_dcp_loads_an_export_without_paceline(saved: Saved, tmp_path: Path) -> None:
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    path, net, optimizer = saved
    out = tmp_path / "dcp"
    assert told("export", path, out, "--to", "dcp")["tensors"] > 0
    other, fresh = make()
    train(other, fresh, 1)
    model, opt = get_state_dict(other, fresh)
    state: dict[str, Any] = {"model": model, "optimizer": opt, "seen": {"files": None}}
    dcp.load(state, checkpoint_id=str(out), **ALONE)
    set_state_dict(other, fresh, model_state_dict=state["model"],
                   optim_state_dict=state["optimizer"])
    assert same(net, other) and state["seen"] == {"files": (1, 2)}
    assert goes_on_alike((net, optimizer), (other, fresh))


def test_an_import_is_a_checkpoint_like_any(saved: Saved, tmp_path: Path) -> None:
    _, net, optimizer = saved
    torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "x.pt")
    done = told("import", tmp_path / "x.pt", tmp_path / "in", "--step", "41")
    assert "/step-41-g" in done["to"] and done["bytes"] > 0
    assert ckpt("verify", tmp_path / "in").returncode == 0
    other, again = make()
    assert Checkpointer(tmp_path / "in").restore({"model": other, "optimizer": again}) == 42
    assert same(net, other) and goes_on_alike((net, optimizer), (other, again))
    (tmp_path / "text.pt").write_text("hello")
    refused = ckpt("import", tmp_path / "text.pt", tmp_path / "in")
    assert refused.returncode == 2 and "error[PL-E083]" in refused.stderr
    assert told("import", tmp_path / "text.pt", tmp_path / "in")["code"] == "PL-E083"


def test_what_differs_between_two(saved: Saved, tmp_path: Path) -> None:
    path = saved[0]
    (first,), (second,) = path.glob("step-0-*"), path.glob("step-1-*")
    done = ckpt("diff", second, path)
    assert done.returncode == 0 and "no difference" in done.stdout, "the newest is the second"
    answer = told("diff", first, second)
    found = {one["key"]: one for one in answer["differences"]}
    assert found["model.0.weight"]["how"] == "content"
    assert found["model.0.weight"]["first"] == [0, 0]
    assert found["model.0.weight"]["differing"] == found["model.0.weight"]["elements"] == 20
    counted = found["model.1.num_batches_tracked"]
    assert (counted["a"], counted["b"], counted["first"]) == ("1", "2", [])
    assert ckpt("diff", first, second).returncode == 5
    same_step = ckpt("diff", path, path, "--step", "0")
    assert same_step.returncode == 0, same_step.stdout


def test_what_differs_between_other_models(saved: Saved, tmp_path: Path) -> None:
    larger = torch.nn.Sequential(torch.nn.Linear(5, 4).half(), torch.nn.Linear(4, 9))
    with Checkpointer(tmp_path / "other") as one:
        one.restore({"model": larger, "seen": 1})
        one.save(0, {"model": larger, "seen": 1})
    differences = told("diff", saved[0], tmp_path / "other")["differences"]
    how = {one["key"]: one["how"] for one in differences}
    assert how["model.0.weight"] == "type" and how["model.1.weight"] == "shape"
    assert how["model.2.weight"] == "only in A" and how["seen"] == "state"
    assert how["optimizer"] == "only in A"
    assert ckpt("diff", saved[0]).returncode == 2
    assert ckpt("diff", saved[0], tmp_path / "nowhere").returncode == 2


@pytest.mark.parametrize("words", [
    ["rescue", "--step", "4"], ["rescue", "DIR", "--to", "hf"], ["ls", "DIR", "--step", "4"],
    ["verify", "DIR", "--entry", "model"], ["import", "x.pt", "DIR", "--max-file", "5GB"],
], ids=" ".join)
def test_a_flag_of_another_subcommand_is_refused(words: list[str]) -> None:
    """The subcommand would ignore it, and `rescue` would bring another step to storage."""
    refused = ckpt(*words)
    assert refused.returncode == 2 and "PL-E001" in refused.stderr, refused
    assert f"paceline ckpt {words[0]} has no flag --" in refused.stderr, refused


def test_an_empty_word_is_no_default() -> None:
    """A variable of the shell that is not set."""
    refused = ckpt("rescue", "")
    assert refused.returncode == 2 and "PL-E002" in refused.stderr, refused
