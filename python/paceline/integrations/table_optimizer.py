"""The step of a model with tables: `paceline.embedding.Optimizer`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from paceline._base import arguments
from paceline._data import in_hand
from paceline._native import GradientSum
from paceline.embedding import port, table_errors
from paceline.embedding.optimizers import Adam, Rule, rule
from paceline.embedding.table import Table, open_dense
from paceline.integrations.table_modules import Embedding, EmbeddingBag, memory_of

_CHUNK = 1_024  # floats of a row of a dense tensor's table
_RECOVERY = 0  # pushes from before a server's loss are not fenced: the ordinals tell them apart


@dataclass
class _Dense:
    """A parameter that lies in a table, too."""

    own_name: str  # in the model
    name: str  # of the table
    parameter: torch.nn.Parameter
    table: int
    dim: int
    gradient: GradientSum
    staged: torch.Tensor | None  # a copy in memory, if the table cannot reach the parameter

    def part(self) -> tuple[int, int, int, int]:
        values = self.parameter.data if self.staged is None else self.staged
        return self.table, self.dim, *memory_of(values)


_names: set[str] = set()  # of the optimizers of this process


class Optimizer:
    """One step of all tables and all other parameters of `model`, which counts once a batch.

    opt = Optimizer(model, dense=Adam(1e-3))
    for batch in LeasedLoader(clicks, name="clicks", batch_size=4096):
        model(batch).loss.backward()
        opt.step()

    The batch that the loop of the `LeasedLoader` works on names the gradients. Dense parameters lie
    in tables as well: the first process gives them their values, and `step` ends with the newest
    ones in the model.

    Args:
        model: its `EmbeddingBag` and `Embedding` modules and its parameters (float32).
        dense: the optimizer of the parameters.
        name: of the model, unique in the job. The table of a parameter is "name.parameter".

    Raises:
        ArgumentError: an argument has a wrong type or value.
        TableError: a parameter of this name has another size or optimizer in the job.
    """

    @arguments.known("Optimizer", hints={"lr": "dense=pe.Adam(1e-3)"})
    def __init__(
        self, model: torch.nn.Module, *, dense: Rule = Adam(), name: str = "dense"  # noqa: B008
    ) -> None:
        if not isinstance(model, torch.nn.Module):
            raise arguments.refuse(
                "Optimizer", "model", model, "a torch.nn.Module", "Optimizer(model)")
        rule("Optimizer", "dense", dense)
        if arguments.text("Optimizer", "name", name, bytes_max=100) in _names:
            wanted = "one that no other Optimizer of this process has, because they would share"
            raise arguments.refuse(
                "Optimizer", "name", name, f"{wanted} their parameters", f'name="{name}2"')
        found = [one.table for one in model.modules() if isinstance(one, (Embedding, EmbeddingBag))]
        self.tables: list[Table] = list({table.number: table for table in found}.values())
        trained = [(own, one) for own, one in model.named_parameters() if one.requires_grad]
        self._dense = [_dense_of(own, f"{name}.{own}", one, dense) for own, one in trained]
        self._after: list[Callable[[], None]] = []
        self._copy_to_staged()
        port.wait(lambda: port.tables().init_dense([one.part() for one in self._dense]))
        self.pull()
        _names.add(name)

    def step(self) -> None:
        """Push the gradients of this batch, and take the newest dense parameters.

        Returns when all tables have answered, so that the loader may acknowledge the batch. The
        gradients are cleared. If tables have a part of a stream's batch from an earlier worker, the
        loop gets the batch again in smaller ones.
        """
        batch = in_hand.current()
        if batch is None:
            raise table_errors.no_batch()
        if batch.is_pushed:
            raise table_errors.two_steps(batch)
        if batch.obstacle:
            raise table_errors.divided(batch)
        self._push(batch)
        batch.is_pushed = True
        self.zero_grad()
        self.pull()
        for call in self._after:
            call()

    def zero_grad(self) -> None:
        """Forget all gradients. `step` does this, too."""
        for table in self.tables:
            table.clear()
        for one in self._dense:
            one.parameter.grad = None

    def pull(self) -> None:
        """Take the newest dense parameters, which other workers may have changed since `step`."""
        parts = [one.part() for one in self._dense]
        port.wait(lambda: port.tables().pull_dense(parts))
        with torch.no_grad():
            for one in self._dense:
                if one.staged is not None:
                    one.parameter.copy_(one.staged.view_as(one.parameter))

    # ---- for Publish ----

    def after_step(self, call: Callable[[], None]) -> None:
        """Call this at the end of each step."""
        self._after.append(call)

    def every_table(self) -> list[tuple[str, int, int]]:
        """Name, number and dim of each table, also of those of dense parameters."""
        tables = [(table.name, table.number, table.dim) for table in self.tables]
        return tables + [(one.name, one.table, one.dim) for one in self._dense]

    def dense_shapes(self) -> list[dict[str, Any]]:
        """Of each dense parameter: its name in the model, its shape, and its table."""
        return [{"name": one.own_name, "shape": list(one.parameter.shape), "table": one.name}
                for one in self._dense]

    def _push(self, batch: in_hand.Batch) -> None:
        gradients: list[tuple[int, GradientSum]] = []
        for table in self.tables:
            noted = table.noted(batch)
            if noted is not None:
                gradients.append((table.number, noted))
        for one in self._dense:
            if one.parameter.grad is None:
                continue
            values = one.parameter.grad.detach().to("cpu", torch.float32).contiguous()
            one.gradient.clear()
            one.gradient.add_dense(memory_of(values))
            gradients.append((one.table, one.gradient))
        answer, why = port.wait(
            lambda: port.tables().push(
                batch.data_set, batch.ordinals, batch.rank, batch.incarnation, _RECOVERY, gradients
            )
        )
        if answer == "overlaps" and batch.is_divisible:
            batch.parts = port.tables().parts()
            return
        if answer == "not finite":
            raise table_errors.not_finite(batch, why)
        if answer not in ("applied", "skipped"):
            raise table_errors.refused(batch, answer, why)

    def _copy_to_staged(self) -> None:
        for one in self._dense:
            if one.staged is not None:
                one.staged.copy_(one.parameter.detach().cpu().reshape(-1))


def _dense_of(own_name: str, name: str, parameter: torch.nn.Parameter, dense: Rule) -> _Dense:
    if parameter.dtype != torch.float32:
        raise arguments.refuse(
            "Optimizer", "model", parameter, f"of float32 parameters, and {name} is "
            f"{parameter.dtype}", "model.float(); autocast computes in lower precision")
    dim = max(1, min(_CHUNK, parameter.numel()))
    is_in_reach = parameter.device.type == "cpu" and parameter.is_contiguous()
    return _Dense(
        own_name=own_name,
        name=name,
        parameter=parameter,
        table=open_dense(name, dim, dense),
        dim=dim,
        gradient=GradientSum(dim),
        staged=None if is_in_reach else torch.empty(parameter.numel()),
    )
