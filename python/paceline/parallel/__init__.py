"""Parallel plans: a model and a mixed cluster in, training on stock PyTorch out.

    from paceline import parallel

    job = parallel.parallelize(model, optimizer=make_adamw, loss=loss, example=batch,
                               global_batch=256)
    for batch in job.loader(dataset):
        out = job.step(batch)
"""

from paceline.parallel.annotate import assign, replicate, split, stage
from paceline.parallel.describe import describe
from paceline.parallel.errors import PlanError
from paceline.parallel.job import Job, StepOutput
from paceline.parallel.make import parallelize

__all__ = [
    "Job",
    "PlanError",
    "StepOutput",
    "assign",
    "describe",
    "parallelize",
    "replicate",
    "split",
    "stage",
]
