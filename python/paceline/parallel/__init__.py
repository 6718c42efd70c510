"""Parallel plans: a model and a mixed cluster in, training on stock PyTorch out.

    from paceline import parallel

    summary = parallel.describe(model, batch, loss, optimizer=make_adamw)
"""

from paceline.parallel.describe import describe
from paceline.parallel.errors import PlanError

__all__ = ["PlanError", "describe"]
