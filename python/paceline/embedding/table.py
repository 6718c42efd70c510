"""A table of rows by key, without any framework."""

import re
from dataclasses import dataclass
from typing import Any

from paceline._base import arguments
from paceline._data import in_hand
from paceline._native import Bags, GradientSum
from paceline.embedding import port, table_errors
from paceline.embedding.optimizers import Adagrad, Rule, rule
from paceline.embedding.port import Memory

_UNITS = {"": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


@dataclass
class _Noted:
    """The gradients for the next step, of all `Table` objects of one name."""

    total: GradientSum
    batch: int | None = None  # in which the first one was noted; -1: in none


_noted: dict[int, _Noted] = {}  # by number of the table


class Table:
    """Rows of `dim` floats by 64-bit key. A key gets its row when training looks it up first.

    ads = Table("ads", dim=16, optimizer=Adagrad(0.05), budget="8GiB")

    The same name again is the same table. A row's first values are uniform in [-scale, scale); they
    follow from seed, name and key alone, so all processes and all later runs agree on them.

    Args:
        name: unique in the job. dim: floats of a row.
        optimizer: `SGD`, `Adagrad` or `Adam`, for rows that a batch touches.
        budget: bytes, as a number or as "8GiB". When rows and index have reached it, no new key
            gets a row: such a key keeps its first values and does not learn. None: no limit.

    Raises:
        ArgumentError: an argument has a wrong type or value.
        TableError: the table is open with another dim, optimizer, seed or scale.
    """

    @arguments.known("Table", hints={"lr": "optimizer=pe.Adagrad(0.05)"})
    def __init__(
        self,
        name: str,
        *,
        dim: int,
        optimizer: Rule = Adagrad(),  # noqa: B008
        budget: int | str | None = None,
        seed: int = 0,
        scale: float = 0.05,
    ) -> None:
        self.name = arguments.text("Table", "name", name, bytes_max=256)
        self.dim = arguments.count("Table", "dim", dim, most=65_536)
        self.optimizer = rule("Table", "optimizer", optimizer)
        self.number = _open(
            self.name,
            self.dim,
            self.optimizer,
            arguments.count("Table", "seed", seed, least=0),
            arguments.number("Table", "scale", scale, least=0.0, most=1e30,
                             wanted="a number, 0 or more", fix="scale=0.05"),
            _bytes(budget),
        )
        self._noted = _noted.setdefault(self.number, _Noted(GradientSum(self.dim)))

    def __repr__(self) -> str:
        return f"Table({self.name!r}, dim={self.dim}, optimizer={self.optimizer})"

    def counts(self) -> dict[str, Any]:
        """Rows, bytes, budget, admitted and refused keys: `ads.counts()["rows"]`."""
        every = port.wait(lambda: port.tables().counts())
        return next(one for one in every if one["name"] == self.name)

    def export(self) -> tuple["memoryview[int]", "memoryview[float]"]:
        """All keys (int64) and their values (float32, a row of `dim` each), in no order.

        keys, rows = map(torch.as_tensor, map(numpy.asarray, ads.export()))
        """
        keys, rows = port.wait(lambda: port.tables().export(self.number))
        if not keys:
            return memoryview(keys).cast("q"), memoryview(rows).cast("f")
        shape = [len(keys) // 8, self.dim]
        return memoryview(keys).cast("q"), memoryview(rows).cast("f", shape=shape)

    # ---- for the modules of a framework ----

    def look_up(self, bags: Bags, pooled: Memory, *, is_training: bool) -> None:
        """Write the pooled rows of these bags."""
        port.wait(
            lambda: port.tables().look_up(self.number, self.dim, bags, is_training, pooled))

    def note(self, bags: Bags, pooled: Memory) -> None:
        """Add the gradients of these bags to those of the next step."""
        if self._noted.batch is None:
            batch = in_hand.current()
            self._noted.batch = -1 if batch is None else batch.number
        self._noted.total.add(bags, pooled)

    def noted(self, batch: in_hand.Batch) -> GradientSum | None:
        """The gradients of this batch, if there are any."""
        if self._noted.batch is None:
            return None
        if self._noted.batch != batch.number:
            raise table_errors.of_another_batch(self.name, batch)
        return self._noted.total

    def clear(self) -> None:
        """Forget the gradients."""
        self._noted.total.clear()
        self._noted.batch = None


def _open(name: str, dim: int, optimizer: Rule, seed: int, scale: float, budget: int) -> int:
    in_hand.want(port.leave_out)
    spec = optimizer.spec()
    try:
        return port.wait(lambda: port.tables().open(name, dim, spec, seed, scale, budget))
    except (RuntimeError, LookupError) as error:
        raise table_errors.other_table(name, str(error)) from None


def open_dense(name: str, dim: int, optimizer: Rule) -> int:
    """The number of a table for the chunks of a dense tensor."""
    return _open(name, dim, optimizer, seed=0, scale=0.0, budget=0)


def _bytes(budget: object) -> int:
    if budget is None:
        return 0
    text = budget if isinstance(budget, str) else str(arguments.whole(budget) or "")
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]iB)?", text.strip(), re.IGNORECASE)
    size = int(float(found[1]) * _UNITS[(found[2] or "").upper()]) if found else 0
    if size < 1:
        wanted = "a number of bytes, or a text as 512MiB or 8GiB"
        raise arguments.refuse("Table", "budget", budget, wanted, 'budget="8GiB"')
    return size
