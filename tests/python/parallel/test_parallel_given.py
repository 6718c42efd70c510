"""What a script gives `parallelize` by mistake, and what it is told."""

from typing import Any

import pytest
import torch
from paceline.parallel import PlanError, describe, parallelize
from paceline.torch import ArgumentError
from torch import nn
from torch.nn.functional import mse_loss

PAIR = (torch.zeros(4, 8), torch.zeros(4, 4))


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def given(model: Any = None, **options: Any) -> Any:
    usual = {"optimizer": sgd, "loss": mse_loss, "example": PAIR, "global_batch": 4}
    return parallelize(nn.Linear(8, 4) if model is None else model, **{**usual, **options})


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"model": lambda x: x}, "nn.Module"),
        ({"optimizer": sgd(nn.Linear(8, 4).parameters())}, "a function of parameters"),
        ({"optimizer": None}, "a function of parameters"),
        ({"optimizer": lambda _: None}, "a function that returns an optimizer"),
        ({"loss": None}, "a function of outputs and targets"),
        ({"scheduler": 3}, "a function of the optimizer"),
    ],
    ids=["model", "made", "none", "returns", "loss", "scheduler"],
)
def test_what_is_no_function_or_makes_nothing_is_refused(
    wrong: dict[str, Any], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ArgumentError) as caught:
        given(**wrong)
    assert told in caught.value.why and caught.value.fix
    assert not caplog.records  # no guess about bytes of an optimizer before the error


def test_a_model_that_is_wrapped_already_is_refused_by_the_wrapper_s_name() -> None:
    with pytest.raises(PlanError, match="divided already") as caught:
        given(nn.Sequential(nn.DataParallel(nn.Linear(8, 4))))
    assert caught.value.where == "0"
    assert "DataParallel" in caught.value.why and "parallelize" in caught.value.fix


@pytest.mark.parametrize("model", [nn.Linear(8, 4).requires_grad_(False), nn.ReLU()])
def test_a_model_that_learns_nothing_is_refused(model: nn.Module) -> None:
    with pytest.raises(PlanError, match="nothing to train") as caught:
        given(model, example=(torch.zeros(4, 8), torch.zeros(4, 4 if model.training else 8)))
    assert type(model).__qualname__ in caught.value.where


@pytest.mark.parametrize(
    "loss", [lambda a, b: (a - b) ** 2, lambda _, __: 3.0], ids=["vector", "float"]
)
def test_a_loss_that_is_not_one_number_is_refused_before_training(loss: Any) -> None:
    with pytest.raises(PlanError, match="the loss is not one number") as caught:
        given(loss=loss)
    assert "mean" in caught.value.fix


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.line(x)
        return y if x.sum() > 0 else -y


def test_a_forward_pass_that_reads_values_is_told_by_its_line() -> None:
    with pytest.raises(PlanError, match="cannot be described") as caught:
        describe(Branching(), PAIR, mse_loss)
    line = Branching.forward.__code__.co_firstlineno + 2
    assert f"test_parallel_given.py:{line}" in caught.value.why
    assert "the value of a tensor" in caught.value.why and "aten" not in caught.value.why


def test_a_loss_that_reads_values_is_told_by_its_line() -> None:
    def loss(output: torch.Tensor, target: torch.Tensor) -> Any:
        return float(mse_loss(output, target))

    with pytest.raises(PlanError, match="cannot be described") as caught:
        describe(nn.Linear(8, 4), PAIR, loss)
    assert f"test_parallel_given.py:{loss.__code__.co_firstlineno + 1}" in caught.value.why
