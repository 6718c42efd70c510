"""Embedding tables whose rows come into being as keys are seen, and a step that counts once.

    import paceline.embedding as pe

    ads = pe.Table("ads", dim=16, optimizer=pe.Adagrad(0.05), budget="8GiB")
    model = Click(pe.EmbeddingBag(ads, mode="sum"))
    opt = pe.Optimizer(model, dense=pe.Adam(1e-3))
    for batch in LeasedLoader(clicks, name="clicks", batch_size=4096):
        model(batch).loss.backward()
        opt.step()

`python train.py` keeps the tables in the process.
"""

from typing import TYPE_CHECKING, Any

from paceline.embedding.optimizers import SGD, Adagrad, Adam
from paceline.embedding.table import Table

if TYPE_CHECKING:
    from paceline.integrations.publish import Publish
    from paceline.integrations.table_modules import Embedding, EmbeddingBag
    from paceline.integrations.table_optimizer import Optimizer

__all__ = ["SGD", "Adagrad", "Adam", "Embedding", "EmbeddingBag", "Optimizer", "Publish", "Table"]


def __getattr__(name: str) -> Any:
    """The classes that need torch, which is imported when one of them is used first."""
    if name in ("Embedding", "EmbeddingBag"):
        from paceline.integrations import table_modules

        return getattr(table_modules, name)
    if name == "Optimizer":
        from paceline.integrations.table_optimizer import Optimizer

        return Optimizer
    if name == "Publish":
        from paceline.integrations.publish import Publish

        return Publish
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
