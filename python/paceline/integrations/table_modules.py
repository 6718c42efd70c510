"""torch modules that look rows up in tables: `paceline.embedding.EmbeddingBag` and `Embedding`."""

from typing import Any, Literal, cast

import torch

from paceline._base import arguments
from paceline._data import in_hand
from paceline._native import Bags
from paceline.embedding import table_errors
from paceline.embedding.port import Memory
from paceline.embedding.table import Table


def memory_of(tensor: torch.Tensor) -> Memory:
    """Where the elements of a contiguous CPU tensor lie."""
    return tensor.data_ptr(), tensor.numel()


def _on_cpu(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.detach().to("cpu", dtype).contiguous()


class _LookUp(torch.autograd.Function):
    """Pooled rows. The gradient goes to the table, and not to a tensor."""

    @staticmethod
    def forward(ctx: Any, _anchor: torch.Tensor, table: Table, bags: Bags) -> torch.Tensor:
        ctx.table, ctx.bags, ctx.batch = table, bags, in_hand.current()
        return _look_up(table, bags, is_training=True)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, None, None]:
        batch = in_hand.current()
        if ctx.batch is not None and batch is not None and ctx.batch is not batch:
            raise table_errors.of_another_batch(ctx.table.name, batch)
        pooled = _on_cpu(gradients[0], torch.float32)
        ctx.table.note(ctx.bags, memory_of(pooled))
        return None, None, None


def _look_up(table: Table, bags: Bags, *, is_training: bool) -> torch.Tensor:
    pooled = torch.empty(bags.bags, table.dim)
    table.look_up(bags, memory_of(pooled), is_training=is_training)
    return pooled


class _OfTable(torch.nn.Module):
    def __init__(self, where: str, table: Table) -> None:
        super().__init__()
        if not isinstance(table, Table):
            raise arguments.refuse(
                where, "table", table, "a pe.Table", 'table=pe.Table("ads", dim=16)')
        self.table = table
        self._where = where
        # Makes autograd call backward, although no tensor here has a gradient.
        self._anchor = torch.empty(0, requires_grad=True)

    def _rows(self, bags: Bags) -> torch.Tensor:
        if not self.training:
            return _look_up(self.table, bags, is_training=False)
        return cast("torch.Tensor", _LookUp.apply(self._anchor, self.table, bags))

    def _keys(self, name: str, value: Any) -> torch.Tensor:
        is_whole = isinstance(value, torch.Tensor) and value.dtype in (torch.int64, torch.int32)
        if not is_whole:
            wanted, fix = "a tensor of int64 or int32", f"{name}={name}.long()"
            raise arguments.refuse(self._where, name, value, wanted, fix)
        return _on_cpu(cast("torch.Tensor", value), torch.int64)


class EmbeddingBag(_OfTable):
    """torch.nn.EmbeddingBag on a table: the sum or the mean of the rows of each sample's keys.

    bag = EmbeddingBag(ads, mode="sum")
    bag(torch.tensor([[3, 7], [7, 7]]))  # two samples of two keys
    bag(torch.tensor([3, 7, 7]), torch.tensor([0, 1]))  # samples begin at 0 and at 1

    A key is any 64-bit number. After `model.eval()` a key without a row gives its first values and
    gets no row, and lookups record no gradient.
    """

    def __init__(self, table: Table, mode: Literal["sum", "mean"] = "sum") -> None:
        super().__init__("EmbeddingBag", table)
        self.mode = arguments.one_of("EmbeddingBag", "mode", mode, ("sum", "mean"))

    def forward(
        self, input: torch.Tensor, offsets: torch.Tensor | None = None  # noqa: A002
    ) -> torch.Tensor:
        keys = self._keys("input", input)
        is_mean = self.mode == "mean"
        if keys.dim() == 2 and offsets is None:
            bags, width = keys.shape
            if width > 0:
                found = Bags.of_width(memory_of(keys), width, is_mean)
                return self._rows(found).to(input.device)
            begins = torch.zeros(bags, dtype=torch.int64)
        elif keys.dim() == 1 and offsets is not None:
            begins = self._keys("offsets", offsets)
        else:
            raise arguments.refuse(
                "EmbeddingBag", "offsets", offsets,
                f"given with a 1-D input and left out with a 2-D one; input has {keys.dim()} "
                "dimensions", "offsets=torch.tensor([0, …]), where each sample begins")
        try:
            found = Bags.from_offsets(memory_of(keys), memory_of(begins), is_mean)
        except LookupError as error:
            raise arguments.refuse(
                "EmbeddingBag", "offsets", offsets, str(error), "offsets=torch.tensor([0, …])"
            ) from None
        return self._rows(found).to(input.device)

    def extra_repr(self) -> str:
        return f"{self.table}, mode={self.mode!r}"


class Embedding(_OfTable):
    """torch.nn.Embedding on a table: a row for each key, `Embedding(ads)(keys)`."""

    def __init__(self, table: Table) -> None:
        super().__init__("Embedding", table)

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        keys = self._keys("input", input)
        bags = Bags.of_width(memory_of(keys), 1, is_mean=False)
        return self._rows(bags).reshape(*keys.shape, self.table.dim).to(input.device)

    def extra_repr(self) -> str:
        return f"{self.table}"
