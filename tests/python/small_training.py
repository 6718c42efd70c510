"""A model small enough for any test, with every kind of state that a real one has."""

from typing import Any

import torch


def make() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3))
    return net, torch.optim.AdamW(net.parameters(), lr=0.01)


def train(net: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.randn(6, 5)).square().sum().backward()
        optimizer.step()


def same(one: Any, other: Any) -> bool:
    """Whether two tensors, two modules or two containers of those hold the same values."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, torch.nn.Module):
        one, other = one.state_dict(), other.state_dict()
    if isinstance(one, dict):
        return set(one) == set(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def goes_on_alike(
    one: tuple[torch.nn.Module, torch.optim.Optimizer],
    other: tuple[torch.nn.Module, torch.optim.Optimizer],
) -> bool:
    """Whether two more steps from the same chance lead both to the same weights."""
    for net, optimizer in (one, other):
        torch.manual_seed(5)
        train(net, optimizer, 2)
    return same(one[0], other[0])


class Adapted(torch.nn.Module):
    """A frozen base of 24 MB, and a small adapter that is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.base = torch.nn.Linear(2000, 3000)
        self.base.requires_grad_(False)
        self.adapter = torch.nn.Linear(2000, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x).sum(dim=1, keepdim=True) + self.adapter(x)


def adapt(net: Adapted, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    net(torch.randn(2, 2000)).square().mean().backward()
    optimizer.step()
