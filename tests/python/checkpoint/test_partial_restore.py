"""What is left out of a restore is said exactly, and weights alone can be taken."""

from pathlib import Path

import pytest
import torch
from paceline.torch import Checkpointer, CheckpointError, load

pytestmark = pytest.mark.usefixtures("own_keeper")


def model(*, head: int = 4, more: bool = False) -> torch.nn.Module:
    layers = [torch.nn.Linear(6, 5), torch.nn.Linear(5, head)]
    return torch.nn.Sequential(*layers, *([torch.nn.Linear(head, 2)] if more else []))


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, torch.nn.Module]:
    """A model, its optimizer with state, a scheduler and plain values, at step 7."""
    torch.manual_seed(1)
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.ones(2, 6)).sum().backward()
    optimizer.step()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    state = {"model": net, "optimizer": optimizer, "schedule": schedule, "seen": 12}
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.restore(state)
        ckpt.save(7, state)
    return tmp_path / "c", net


def equal(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_the_weights_alone(saved: tuple[Path, torch.nn.Module]) -> None:
    path, net = saved
    torch.manual_seed(5)
    other = model()
    before = torch.get_rng_state()
    with pytest.raises(CheckpointError, match="optimizer was saved with 12 tensors"):
        load(path, {"model": other})
    assert not equal(net, other), "nothing is touched by a load that is refused"
    loaded = load(path, {"model": other}, strict=False)
    assert equal(net, other) and loaded.step == 7
    assert loaded.left_out == [
        "optimizer was saved with 12 tensors, and the state has no such entry",
        "schedule was saved, and the state has no such entry",
        "seen was saved, and the state has no such entry",
    ]
    assert torch.equal(torch.get_rng_state(), before), "chance is not the checkpoint's"


def test_into_a_model_that_has_more(saved: tuple[Path, torch.nn.Module]) -> None:
    path, net = saved
    larger = model(more=True)
    fresh = larger[2].weight.detach().clone()  # pyright: ignore
    with pytest.raises(CheckpointError, match=r"model\.2\.weight was not saved"):
        load(path, {"model": larger})
    loaded = load(path, {"model": larger}, strict=False)
    assert {"model.2.weight was not saved", "model.2.bias was not saved"} <= set(loaded.left_out)
    assert torch.equal(larger[0].weight, net[0].weight)  # pyright: ignore
    assert torch.equal(larger[2].weight, fresh)  # pyright: ignore


def test_into_a_model_of_another_shape_and_type(saved: tuple[Path, torch.nn.Module]) -> None:
    path, net = saved
    other = model(head=3)
    other[0].bias.data = other[0].bias.data.double()  # pyright: ignore
    with pytest.raises(CheckpointError) as caught:
        load(path, {"model": other})
    assert "model.1.weight was saved as [4, 5], not [3, 5]" in str(caught.value)
    assert "model.0.bias was saved as F32, not F64" in str(caught.value)
    loaded = load(path, {"model": other}, strict=False)
    assert loaded.left_out[:3] == [
        "model.0.bias was saved as F32, not F64",
        "model.1.weight was saved as [4, 5], not [3, 5]",
        "model.1.bias was saved as [4], not [3]",
    ]
    assert torch.equal(other[0].weight, net[0].weight)  # pyright: ignore


def test_nothing_that_fits_is_an_error_even_so(saved: tuple[Path, torch.nn.Module]) -> None:
    with pytest.raises(CheckpointError, match="none of its tensors is in the state"):
        load(saved[0], {"model": torch.nn.Linear(3, 3)}, strict=False)


def test_the_optimizer_of_a_model_that_grew(saved: tuple[Path, torch.nn.Module]) -> None:
    path, _net = saved
    larger = model(more=True)
    optimizer = torch.optim.AdamW(larger.parameters(), lr=0.5)
    state = {"model": larger, "optimizer": optimizer}
    ckpt = Checkpointer(path)
    with pytest.raises(CheckpointError, match=r"optimizer's state of model\.2\.weight"):
        ckpt.restore(state)
    assert ckpt.restore(state, strict=False) == 8
    assert "optimizer's state of model.2.weight was not saved" in ckpt.left_out
    assert "left out: " in ckpt.restored
    states = optimizer.state
    assert states[larger[0].weight]["step"] == 1  # pyright: ignore
    assert larger[2].weight not in states  # pyright: ignore
    assert optimizer.param_groups[0]["lr"] == 0.001
    larger(torch.ones(1, 6)).sum().backward()
    optimizer.step()
    ckpt.save(8, state).wait("durable")
    ckpt.close()


def test_wrapped_models_are_the_same_to_it(saved: tuple[Path, torch.nn.Module]) -> None:
    path, net = saved
    other = model()
    compiled = torch.compile(other)  # nothing is compiled until it is called
    assert load(path, {"model": compiled}, strict=False).step == 7
    assert equal(net, other)


def test_what_is_not_there_is_told(tmp_path: Path, saved: tuple[Path, torch.nn.Module]) -> None:
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        load(tmp_path / "nowhere", {"model": model()})
    (folder,) = saved[0].glob("step-*")
    victim = folder / "shard-00000.safetensors"
    text = bytearray(victim.read_bytes())
    text[-3] ^= 1
    victim.write_bytes(text)
    with pytest.raises(CheckpointError, match="are not those that were saved"):
        load(folder, {"model": model()}, strict=False)


def test_a_damaged_newer_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in (1, 2):
        with Checkpointer(tmp_path / "c", every=1) as ckpt:
            ckpt.save(step, {"x": torch.full((2,), float(step))})
    (newest,) = (tmp_path / "c").glob("step-2-*")
    (newest / "MANIFEST.json").write_text("{}")
    state: dict[str, object] = {"x": torch.zeros(2)}
    assert load(tmp_path / "c", state).step == 1
    assert f"paceline: passed over {newest.name}: " in capsys.readouterr().err
    load(next((tmp_path / "c").glob("step-1-*")), state)  # as asked for
    assert "passed over" not in capsys.readouterr().err
