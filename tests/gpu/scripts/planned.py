"""A small GPT trains by a plan, and writes what it did to OUT/rank-RANK.json.

    planned.py --out DIR --steps N [--wish AXIS=VALUE] [--slower] [--plain] [--compiled]
               [--backend nccl|gloo] [--checkpoint DIR] [--kill-at STEP] [--precision bf16]
               [--fraction BYTES] [--alone-in-shards]

--plain trains a copy first, with torch alone. --slower plans for a second device of half the
speed. --fraction limits the bytes of the GPU's memory; on a CPU the first step fails as if it were
full. --alone-in-shards runs the executor of FSDP2 in a world of one, which no plan asks for.
"""

import argparse
import copy
import hashlib
import json
import os
import signal
import time
from inspect import unwrap
from pathlib import Path
from typing import Any

# cuBLAS reads it when it is used first; without it torch refuses to be deterministic.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import paceline.torch as pl
import torch
import torch.distributed as dist
from paceline.parallel import agree, execute, job, make, parallelize
from paceline.parallel.describe import study
from paceline.parallel.plan import ParallelPlan
from torch import Tensor, nn

ON_GPU = torch.cuda.is_available()
WIDTH, LENGTH, BATCH = (512, 128, 48) if ON_GPU else (64, 24, 24)
WORDS, SAMPLES, RATE = 512, 960, 1e-3


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--wish", action="append", default=[])
    parser.add_argument("--slower", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--backend", default="")
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--kill-at", type=int, default=-1)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--fraction", type=int, default=0)
    parser.add_argument("--alone-in-shards", action="store_true")
    return parser.parse_args()


class Position(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table


class Block(nn.Module):
    """A block of a GPT: what stands after a word is not seen."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mixed, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.mixed(self.before(x)).unflatten(2, (3, 4, WIDTH // 4)).transpose(1, 3)
        query, key, value = heads.unbind(2)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.joined(mixed.transpose(1, 2).flatten(2))
        return x + self.narrow(nn.functional.gelu(self.wide(self.after(x))))


def make_model() -> nn.Sequential:
    torch.manual_seed(1)
    blocks = [Block() for _ in range(6)]
    return nn.Sequential(nn.Embedding(WORDS, WIDTH), Position(), *blocks, nn.Linear(WIDTH, WORDS))


class Sentences:
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        source = torch.Generator().manual_seed(index)
        words = torch.randint(0, WORDS, (LENGTH,), generator=source)
        return words, words.roll(3)


def loss_of(output: Tensor, words: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output.flatten(0, 1), words.flatten())


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=RATE)


def cosine(optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)


def plain_losses(model: nn.Module, steps: int, precision: str) -> list[float]:
    """What torch alone reaches with the same samples on this device."""
    place = torch.device("cuda" if ON_GPU else "cpu")
    model = copy.deepcopy(model).to(place)
    optimizer = adamw(model.parameters())
    scheduler = cosine(optimizer)
    data, losses = Sentences(), []
    for step in range(steps):
        rows = [data[index] for index in range(step * BATCH, (step + 1) * BATCH)]
        words, wanted = (torch.stack(column).to(place) for column in zip(*rows, strict=True))
        optimizer.zero_grad()
        with torch.autocast(place.type, torch.bfloat16, enabled=precision == "bf16"):
            loss = loss_of(model(words), wanted)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with torch.no_grad():  # without its hooks, which would count a step of the job
            unwrap(type(optimizer).step)(optimizer)
        scheduler.step()
        losses.append(float(loss))
    return losses


def two_speeds() -> dict[str, Any]:
    """A cluster of two devices, the second one half as fast."""
    def kind(name: str, flops: float) -> dict[str, Any]:
        return {"name": name, "flops": flops, "bandwidth": 1e12, "launch": 1e-5,
                "memory": 1 << 34, "source": "test"}  # fmt: skip

    link = {"seconds": 1e-5, "bandwidth": 1e10}
    return {"schema": "paceline.cluster/1", "types": [kind("fast", 2e13), kind("slow", 1e13)],
            "groups": [{"type": "fast", "count": 1}, {"type": "slow", "count": 1}],
            "node": 1, "inner": link, "outer": link}  # fmt: skip


def in_shards_alone(model: nn.Module) -> Any:
    """A job whose only rank is a shard of FSDP2."""
    words = torch.zeros(4, LENGTH, dtype=torch.long)
    studied = study(model, (words, words), loss_of, optimizer=adamw, precision="bf16")
    text = json.dumps({
        "model": "", "global_batch": BATCH, "data": 1, "tensor": 1, "shard": True,
        "recompute": False, "micro_batches": 2, "schedule": "none", "shares": [BATCH],
        "unused": [], "because": "the test gives it", "predicted": {"memory": [0]},
        "stages": [{"layers": [0, len(studied.few)], "ranks": [0]}]})  # fmt: skip
    plan, place = ParallelPlan.parse(text), torch.device("cuda" if ON_GPU else "cpu")
    work = execute.Work(
        model=model.to(place), study=studied, plan=plan, place=plan.place(0), device=place,
        loss=loss_of, example=(words, words), precision="bf16",
        replicas=dist.group.WORLD, pipeline=None)  # fmt: skip
    whole = make._whole(work)
    executor = execute.executor_for(work)
    answer = agree.Answer(plan, agree.Kept(text, "", []), "the test gives it")
    optimizer = adamw(executor.parameters)
    return job.Job(executor, answer, optimizer, cosine(optimizer), whole, 1.0)


def planned(args: argparse.Namespace, model: nn.Module, checkpointer: Any) -> Any:
    words = torch.zeros(4, LENGTH, dtype=torch.long)
    wishes: dict[str, list[Any]] = {}
    for wish in args.wish:
        axis, _, value = wish.partition("=")
        wishes[axis] = [json.loads(value)]
    return parallelize(
        model, optimizer=adamw, loss=loss_of, example=(words, words), global_batch=BATCH, clip=1.0,
        precision=args.precision, scheduler=cosine, wishes=wishes, checkpointer=checkpointer,
        cluster=two_speeds() if args.slower else None, compiled="auto" if args.compiled else False,
    )


def run_short(found: Any) -> None:
    """The first step runs out of memory, as that of a CPU does not by itself."""
    def step(*_: object) -> Any:
        raise torch.OutOfMemoryError("there is none left")

    found._executor.step = step


def digest(tensors: dict[str, Tensor]) -> str:
    total = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        total.update(name.encode())
        total.update(value.contiguous().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def wait_for_device() -> None:
    if ON_GPU:
        torch.cuda.synchronize()


def train(args: argparse.Namespace, found: Any, checkpointer: Any) -> dict[str, Any]:
    loader = found.loader(Sentences(), shuffle=False)
    state = {**found.state, "data": loader}
    step = first = checkpointer.restore(state) if checkpointer else 0
    losses: list[float] = []
    norms: list[float] = []
    begin = time.perf_counter()
    for batch in loader:
        out = found.step(batch)
        losses.append(float(out.loss))
        norms.append(float(out.grad_norm))
        if step == first:  # which makes what the others use again
            wait_for_device()
            begin = time.perf_counter()
        if checkpointer:
            checkpointer.save(step, state)
        pl.step(step)
        step += 1
        if step == args.kill_at and pl.generation() <= 1 and pl.rank() == pl.world_size() - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if step >= args.steps:
            break
    wait_for_device()
    seconds = (time.perf_counter() - begin) / max(1, step - first - 1)
    return {"first": first, "losses": losses, "norms": norms, "seconds": seconds}


def main() -> None:
    args = parse()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if args.fraction and ON_GPU:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(args.fraction / total)
    if args.backend:
        dist.init_process_group(args.backend)
    model = make_model()
    plain = plain_losses(model, args.steps, args.precision) if args.plain else []
    checkpointer = pl.Checkpointer(args.checkpoint, every=2) if args.checkpoint else None
    found = in_shards_alone(model) if args.alone_in_shards else planned(args, model, checkpointer)
    told = {"plan": found.plan.told(), "shares": found.plan.shares, "because": found.because,
            "predicted": found.plan.step_seconds, "memory": found.plan.memory, "plain": plain,
            "device": str(found._executor.work.device)}  # fmt: skip
    print(json.dumps(told), flush=True)
    if args.fraction and not ON_GPU:
        run_short(found)
    done = train(args, found, checkpointer)
    weights = digest(found.state_dict())
    row = {**told, **done, "weights": weights, "is_fork": torch.cuda._is_in_bad_fork()}
    (args.out / f"rank-{pl.rank()}.json").write_text(json.dumps(row))
    if checkpointer:
        checkpointer.close()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
