"""`parallelize`, and the job that it returns."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from paceline._base import arguments
from paceline.parallel import batch as batches
from paceline.parallel import memory
from paceline.parallel.agree import Answer, Kept
from paceline.parallel.execute import Executor, Stepper
from paceline.parallel.loader import PlannedLoader
from paceline.parallel.move import Coming, Mover
from paceline.parallel.plan import ParallelPlan
from paceline.parallel.replan import Corrected, corrected, cutter_of, room_of

CORRECTED = "it is corrected"  # where a plan comes from whose shares were cut again


@dataclass(frozen=True, slots=True)
class StepOutput:
    """The result of a step. Both values are the same on every rank."""

    loss: torch.Tensor  # the mean over the global batch, before the step
    grad_norm: torch.Tensor  # norm over the whole model, before clipping


@dataclass(frozen=True, slots=True)
class Whole:
    """A tensor of the undivided model, and a rank that has it."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    owner: int


class PlanNote:
    """The plan in a checkpoint: an entry of `Job.state`."""

    def __init__(self, now: Kept | None) -> None:
        self.now = now
        self.coming = Coming()
        self.found: Kept | None = None
        self.found_next = ""  # the plan to which layers were to move

    def state_dict(self) -> dict[str, Any]:
        now = self.now
        if now is None:
            return {}
        self.coming.is_saved = bool(self.coming.plan)
        saved = {"plan": now.plan, "question": now.question, "devices": json.dumps(now.devices)}
        return saved | ({"next": self.coming.plan} if self.coming.plan else {})

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Remembers the checkpoint's plan. The plan of this world does not change."""
        try:
            devices = json.loads(saved["devices"])
            self.found = Kept(str(saved["plan"]), str(saved["question"]), devices)
            self.found_next = str(saved.get("next", ""))
        except (KeyError, TypeError, ValueError):
            self.found = None


class Job:
    """A model that trains by a plan: see `paceline.parallel.parallelize`."""

    def __init__(
        self,
        executor: Executor,
        answer: Answer,
        optimizer: Optimizer | None,
        scheduler: Any,
        whole: list[Whole],
        clip: float | None,
        retell: Callable[[ParallelPlan], None] | None = None,
        note: PlanNote | None = None,
        mover: Mover | None = None,
    ) -> None:
        self.plan: ParallelPlan = answer.plan
        self.because = f"{answer.because}; {answer.plan.because}".rstrip("; ")
        self.model: nn.Module = executor.model
        self.optimizer = optimizer
        self.scheduler = scheduler
        self._executor = executor
        self._whole = whole
        self._clip = clip
        self._stepper = Stepper(optimizer, executor.parameters) if optimizer is not None else None
        self._note = note or PlanNote(answer.kept)
        self._mover = mover
        self._kept = answer.kept
        self._has_stepped = False
        self._loader: PlannedLoader | None = None  # the first one: that of the training
        self._retell = retell
        if executor.work.place is None:
            vars(self.model)["holds_nothing"] = True
        elif self.plan.is_pipeline:  # a restore is told that other ranks have the rest
            for part in (self.model, optimizer):
                if part is not None:
                    vars(part)["holds_part"] = True

    @property
    def _device(self) -> str:
        """The name of this rank's device."""
        names = [name for name, count in self._kept.devices for _ in range(count)]
        return names[dist.get_rank() if dist.is_initialized() else 0]

    @property
    def state(self) -> dict[str, Any]:
        """The entries of a checkpoint's state that belong to this job: `ckpt.save(step,
        {**job.state, …})`.
        """
        state: dict[str, Any] = {"model": self.model, "plan": self._note}
        if self.optimizer is not None:
            state["optimizer"] = self.optimizer
        if self.scheduler is not None:
            state["scheduler"] = self.scheduler
        return state

    def loader(self, dataset: Any, *, shuffle: bool = True, seed: int = 0,
               **options: Any) -> PlannedLoader:  # fmt: skip
        """The data, cut to the plan's shares: `for batch in job.loader(dataset): job.step(batch)`.

        Samples at the end of an epoch that fill no whole step are left out.

        Args:
            dataset: a data set, or an `ElasticDataset`, which has an order of its own.
            shuffle: whether each epoch has another order. Not used for an `ElasticDataset`.
            seed: of the order. Not used for an `ElasticDataset`.
            options: further arguments of `paceline.torch.ElasticLoader`.
        """
        from paceline._data.order import ElasticDataset

        if not hasattr(dataset, "terms"):
            dataset = ElasticDataset(dataset, shuffle=shuffle, seed=seed)
        place = self._executor.work.place
        cutter = None
        if self._loader is None:
            cutter = cutter_of(self._executor, room_of(self._executor.work.device), self._correct)
        replica = 0 if place is None else place.replica
        loader = PlannedLoader(dataset, self.plan, replica, cutter=cutter, **options)
        if self._loader is None:
            self._loader, self._executor.worked = loader, loader.worked
        return loader

    def _correct(self, found: Corrected) -> None:
        """Takes over corrected shares: the loader cuts by them already."""
        self.plan = corrected(self.plan, found)
        self.because = f"{CORRECTED}; {found.because}"
        self._kept = self._note.now = replace(self._kept, plan=self.plan.text)
        if self._retell is not None and (not dist.is_initialized() or dist.get_rank() == 0):
            self._retell(self.plan)

    def step(self, batch: object) -> StepOutput:
        """Train one step with this rank's share of the global batch.

        Args:
            batch: a batch of `job.loader(…)`.

        Returns:
            The loss and the norm of the gradients, the same on every rank.

        Raises:
            ArgumentError: the batch does not have this rank's share of samples.
            PlanError: the first step ran out of memory. The next job gets another plan.
        """
        if self._mover is not None:
            self._mover.begin_step()
        try:
            output = self._step(batch)
        except Exception as error:
            if self._has_stepped or not memory.is_out_of_memory(error):
                raise
            rank = dist.get_rank() if dist.is_initialized() else 0
            raise memory.noted(self.plan, rank, self._kept.question, self._device) from error
        self._has_stepped = True
        if self._mover is not None:
            self._mover.end_step()
        return output

    def _step(self, batch: object) -> StepOutput:
        work = self._executor.work
        inputs, targets = self._moved(batch)
        size = batches.samples(inputs)
        share = self._share()
        if work.place is not None and size != share:
            raise arguments.refuse(
                "Job.step", "batch", batch,
                f"of {share} samples, this rank's share of the plan, and it has {size}",
                "batches of job.loader(dataset)",
            )  # fmt: skip
        self.model.train()
        if self.optimizer is not None:
            self.optimizer.zero_grad(set_to_none=True)
        loss = self._executor.step(inputs, targets)
        norm = self._executor.clip(self._clip)
        if work.place is not None and work.place.part > 0:
            loss.zero_()  # all ranks that share layers have the same loss; count it once
        self._add_up(loss)
        if work.place is None:
            norm.zero_()
        if work.plan.size < _world_size():  # some ranks are not in the plan
            first = work.plan.stages[0].ranks[0]
            dist.broadcast(norm, first)
        if self._stepper is not None:
            self._stepper.step()
        if self.scheduler is not None:
            self.scheduler.step()
        return StepOutput(loss, norm)

    def _share(self) -> int:
        """Samples of this rank's replica in the present step."""
        loader = self._loader
        if loader is not None and loader.by_speed is not None and loader.share is not None:
            return loader.share
        return self._executor.work.share

    def evaluate(self, batches_of: Iterable[object]) -> float:
        """The mean loss of these batches, without training. Every rank calls it.

        Args:
            batches_of: this rank's batches. Under a plan with a pipeline or shards, all ranks must
                give the same number of batches.
        """
        device = self._executor.work.device
        total = torch.zeros(2, dtype=torch.float64, device=device)
        was_training = self.model.training
        self.model.eval()
        try:
            for batch in batches_of:
                inputs, targets = self._moved(batch)
                found = self._executor.evaluate(inputs, targets)
                if self._tells():
                    total[0] += found.double()
                if self._counts():
                    total[1] += batches.samples(inputs)
        finally:
            self.model.train(was_training)
        self._add_up(total)
        return float(total[0] / total[1].clamp(min=1))

    def _counts(self) -> bool:
        """Whether this rank's samples are counted: each replica counts once."""
        place = self._executor.work.place
        return place is not None and (place.stage, place.part) == (0, 0)

    def _tells(self) -> bool:
        """Whether this rank's losses are added. Of ranks that share layers, only the first one's
        losses are.
        """
        place = self._executor.work.place
        return place is None or place.part == 0

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The tensors of the undivided model, in CPU memory. Every rank calls it, and gets all
        of them.
        """
        own = self._executor.owned()
        found: dict[str, torch.Tensor] = {}
        device, world = self._executor.work.device, _world_size()
        spreads = self.plan.is_pipeline or len(self.plan.stages[0].ranks) < world
        for one in self._whole:
            tensor = own.get(one.name)
            if spreads:
                if tensor is None or dist.get_rank() != one.owner:
                    tensor = torch.empty(one.shape, dtype=one.dtype, device=device)
                tensor = tensor.contiguous()
                dist.broadcast(tensor, one.owner)
            assert tensor is not None, one.name
            found[one.name] = tensor.detach().to("cpu", copy=True)
        return found

    def _moved(self, batch: object) -> tuple[Any, Any]:
        inputs, targets = batches.split(batch)
        device = self._executor.work.device
        return batches.moved(inputs, device), batches.moved(targets, device)

    @staticmethod
    def _add_up(value: torch.Tensor) -> None:
        if _world_size() > 1:
            dist.all_reduce(value)


def _world_size() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


MakeScheduler = Callable[[Optimizer], Any]
