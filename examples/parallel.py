"""A small language model that trains by a plan: no line of it says how it is divided.

    paceline run --nproc-per-node 4 examples/parallel.py --steps 40
    torchrun --nproc-per-node 4 examples/parallel.py --steps 40
    paceline plan --cluster 'H100-80G:8,A100-80G:8' examples/parallel.py

The plan is chosen for the devices that are there: replicas with shares by their speed, stages of a
pipeline, shards. When a rank is killed, the next world has the same devices, takes the plan from
the checkpoint, and ends with the same bits as undisturbed training.
"""

import argparse
import hashlib
import os
import signal
from pathlib import Path

import paceline.torch as pl
import torch
import torch.distributed as dist
from torch import Tensor, nn

from paceline import parallel

WIDTH, WORDS, LENGTH, SAMPLES = 64, 96, 24, 512


class Position(nn.Module):
    """Adds a learned vector for each place."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table


def make_model(dropout: float, split: int) -> nn.Sequential:
    """An nn.Sequential can be cut into stages between any two of its layers.

    With `split`, so many ranks share the two layers that grow with the vocabulary.
    """
    scope = parallel.split(split) if split > 1 else parallel.replicate()
    with scope:
        words = nn.Embedding(WORDS, WIDTH)
    blocks = [
        nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, batch_first=True, dropout=dropout)
        for _ in range(4)
    ]
    with scope:
        head = nn.Linear(WIDTH, WORDS)
    return nn.Sequential(words, Position(), *blocks, head)


def make_llama() -> nn.Module:
    """A model of transformers instead: ranks can share all of its blocks, and divide sequences."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=WIDTH,
            intermediate_size=4 * WIDTH,
            num_hidden_layers=4,
            num_attention_heads=4,
            vocab_size=WORDS,
            max_position_embeddings=LENGTH,
            tie_word_embeddings=False,
        )
    )


def make_gpt2(dropout: float) -> nn.Module:
    """One whose head shares the weight of its embedding: the first and the last stage have it."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            n_embd=WIDTH,
            n_layer=4,
            n_head=4,
            vocab_size=WORDS,
            n_positions=LENGTH,
            embd_pdrop=dropout,
            attn_pdrop=dropout,
            resid_pdrop=dropout,
        )
    )


class Sentences:
    """Sequences of words that follow a rule; each place is to be told what was three before."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        source = torch.Generator().manual_seed(index)
        words = torch.randint(0, WORDS, (LENGTH,), generator=source)
        return words, words.roll(3)


def loss_of(output: Tensor, words: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output.flatten(0, 1), words.flatten())


def digest(tensors: dict[str, Tensor]) -> str:
    """One hash over the names and the exact bits of all tensors."""
    total = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        total.update(name.encode())
        total.update(value.contiguous().numpy().tobytes())
    return total.hexdigest()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A model that trains by a plan.")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--global-batch", type=int, default=24)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--checkpoint", type=Path, default=Path("parallel"))
    parser.add_argument("--pipeline", type=int, help="so many stages, instead of the best number")
    parser.add_argument("--virtual-stages", type=int, default=1, help="chunks of a stage's layers")
    parser.add_argument("--split", type=int, default=1, help="ranks that share the vocabulary")
    parser.add_argument("--llama", action="store_true", help="a model of transformers")
    parser.add_argument("--gpt2", action="store_true", help="one with a shared weight")
    parser.add_argument("--shard", action="store_true", help="replicas divide the state")
    parser.add_argument("--tensor", type=int, default=1, help="ranks that share its blocks")
    parser.add_argument("--sequence", action="store_true", help="they divide sequences, too")
    parser.add_argument("--schedule", default="", help="of a pipeline, such as zero-bubble")
    parser.add_argument("--recompute", default="", help="none, full or selective")
    parser.add_argument("--kill-at", type=int, default=-1, help="this step kills a rank, once")
    parser.add_argument("--kill-rank", type=int, default=0)
    return parser.parse_args()


def wishes_of(args: argparse.Namespace) -> dict[str, list[int | str]]:
    """Limits of the search, if any flag asks for them."""
    wishes: dict[str, list[int | str]] = {}
    if args.pipeline:
        wishes["pipeline"] = [args.pipeline]
    if args.llama:
        wishes["tensor"], wishes["sequence"] = [args.tensor], [int(args.sequence)]
    if args.shard:
        wishes["shard"] = [1]
    for axis in ("schedule", "recompute"):
        if value := getattr(args, axis):
            wishes[axis] = [value]
    if args.virtual_stages > 1:
        wishes["virtual_stages"] = [args.virtual_stages]
    return wishes


def model_of(args: argparse.Namespace) -> nn.Module:
    if args.gpt2:
        return make_gpt2(args.dropout)
    return make_llama() if args.llama else make_model(args.dropout, args.split)


def main() -> None:
    args = parse_arguments()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    data = Sentences()
    words = torch.zeros(4, LENGTH, dtype=torch.long)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo")
    rank, is_first = int(os.environ.get("RANK", "0")), pl.generation() <= 1
    with pl.Checkpointer(args.checkpoint, every=5) as checkpointer:
        job = parallel.parallelize(
            model_of(args),
            optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=3e-3),
            loss=loss_of,
            example=(words, words),
            global_batch=args.global_batch,
            clip=1.0,
            wishes=wishes_of(args),
            checkpointer=checkpointer,
        )
        loader = job.loader(data, seed=7)
        state = {**job.state, "data": loader}
        step = checkpointer.restore(state)
        if rank == 0:
            print(f"plan {job.plan.told()}, shares {job.plan.shares}: {job.because}", flush=True)
            if step:
                print(f"resumed at step {step}", flush=True)
        while step < args.steps:
            for batch in loader:
                out = job.step(batch)
                if rank == 0 and (step % 10 == 0 or step == args.steps - 1):
                    print(f"step {step} loss {float(out.loss):.6f}", flush=True)
                checkpointer.save(step, state)
                step += 1
                if step == args.kill_at and is_first:
                    if dist.is_initialized():
                        dist.barrier()  # until every rank has saved the step: then it is kept
                    if rank == args.kill_rank:
                        os.kill(os.getpid(), signal.SIGKILL)
                if step == args.steps:
                    break
    final = digest(job.state_dict())
    if rank == 0:
        print(f"weights sha256 {final}", flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
