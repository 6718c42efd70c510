"""Four ranks, forked, that train by every plan and compare with one process. JSON on stdout.

With the names of cases as arguments, these alone. "further" has those that take more time, and
"eight" those of a world of eight.
"""

import json
import math
import os
import signal
import sys
import tempfile
import time
import traceback
from typing import Any

import torch
import torch.distributed as dist
from paceline._native import cut_evenly
from paceline.parallel.describe import text_of
from paceline.parallel.execute import reduce
from parallel_cases import BATCH, CASES, EIGHT, FURTHER, Case, digest_of
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from paceline import parallel

STEPS, SECONDS_MAX = 3, 540
DIGESTS: dict[tuple[str, str, str], str] = {}
"""Of the summaries, which the ranks inherit."""


# Ranks of a host without links of its own could be best alone; the search has to use all.
WISHES = {"data": [2], "pipeline": [2], "micro_batches": [2]}


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)


def adam_fused(parameters: Any) -> torch.optim.Optimizer:
    # Adam divides by the size of a gradient: epsilon bounds the noise of one near 0.
    return torch.optim.AdamW(parameters, lr=0.01, eps=1e-3, fused=True)


def sgd_foreach(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01, foreach=True)


OPTIMIZERS = {"sgd": sgd, "fused": adam_fused, "foreach": sgd_foreach}


def next_token(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return cross_entropy(logits.flatten(0, 1), labels.flatten())


def made(kind: str) -> tuple[nn.Module, Any, list[Any]]:
    """A model, its loss, and the samples of each step."""
    torch.manual_seed(1)
    if kind == "mlp":
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 24), nn.LayerNorm(24),
                              nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 4))  # fmt: skip
        return model, mse_loss, [(torch.randn(BATCH, 8), torch.randn(BATCH, 4))
                                 for _ in range(STEPS)]  # fmt: skip
    if kind == "words":
        with parallel.split(2):
            words, head = nn.Embedding(24, 8), nn.Linear(16, 24)
        model = nn.Sequential(words, nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16),
                              nn.LayerNorm(16), nn.Tanh(), head)  # fmt: skip
        tokens = torch.randint(0, 24, (STEPS, BATCH, 5))
        return model, next_token, [(one, one.roll(-1, 1)) for one in tokens]
    if kind == "tied words":  # a head with a bias of its own, and the words' weight
        words, head = nn.Embedding(24, 16), nn.Linear(16, 24)
        head.weight = words.weight
        model = nn.Sequential(words, nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16),
                              nn.LayerNorm(16), nn.Tanh(), head)  # fmt: skip
        tokens = torch.randint(0, 24, (STEPS, BATCH, 5))
        return model, next_token, [(one, one.roll(-1, 1)) for one in tokens]
    return of_transformers(kind)


def of_transformers(kind: str) -> tuple[nn.Module, Any, list[Any]]:
    import transformers

    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4,
             "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 32, "head_dim": 8,
             "tie_word_embeddings": kind == "tied"}  # fmt: skip
    others = {"gemma": "Gemma", "mistral": "Mistral", "qwen2": "Qwen2"}
    if kind in others:
        config = getattr(transformers, f"{others[kind]}Config")(**sizes)
        llama: nn.Module = getattr(transformers, f"{others[kind]}ForCausalLM")(config)
    elif kind == "gpt2":  # its head has the weight of its embedding
        llama = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            n_embd=16, n_layer=4, n_head=2, vocab_size=32, n_positions=8, n_inner=24,
            embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0))  # fmt: skip
    elif kind == "qwen3":  # it has norms between divided products, and biases behind them
        llama = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
            **sizes, attention_bias=True))  # fmt: skip
    else:
        sizes["attn_implementation"] = "eager" if kind == "eager" else "sdpa"
        llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
    tokens = torch.randint(0, 32, (STEPS, BATCH, 6))
    mask = torch.ones(BATCH, 6, dtype=torch.long)
    mask[::3, 4:] = 0  # some samples are shorter
    steps = [
        {"input_ids": one, "attention_mask": mask, "labels": one.roll(-1, 1)} for one in tokens
    ]
    if kind == "lengths":  # each step has sequences of another length
        steps = [{key: one[:, : 6 - number] for key, one in step.items()}
                 for number, step in enumerate(steps)]  # fmt: skip
    return llama, next_token, steps


def cut(batch: Any, begin: int, end: int) -> Any:
    if isinstance(batch, dict):
        return {name: one[begin:end] for name, one in batch.items()}
    return tuple(one[begin:end] for one in batch)


def passes(case: Case) -> list[tuple[int, int]]:
    """Begin and end of each pass of a step, over all replicas."""
    found, at = [], 0
    for share in case.shares:
        count = min(case.micro_batches, share)
        found += [cut_evenly(at, at + share, number, count) for number in range(count)]
        at += share
    return found


def alone(case: Case) -> dict[str, Any]:
    """The same training in one process, with torch alone."""
    model, loss, steps = made(case.model)
    optimizer = OPTIMIZERS[case.optimizer](model.parameters())
    losses, norms = [], []
    for batch in steps:
        optimizer.zero_grad()
        total = 0.0
        for begin, end in passes(case):
            some = cut(batch, begin, end)
            with torch.autocast("cpu", torch.bfloat16, enabled=case.precision == "bf16"):
                if isinstance(some, dict):
                    targets = some.pop("labels")
                    output = model(**some).logits
                else:
                    output, targets = model(some[0]), some[1]
                one = loss(output, targets) * ((end - begin) / BATCH)
            one.backward()
            total += float(one.detach())
        limit = case.clip or float("inf")
        norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), limit)))
        losses.append(total)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        final = steps[0]
        targets = final["labels"] if isinstance(final, dict) else final[1]
        output = (model(final["input_ids"], attention_mask=final["attention_mask"]).logits
                  if isinstance(final, dict) else model(final[0]))  # fmt: skip
        evaluated = float(loss(output, targets))
    return {"losses": losses, "norms": norms, "weights": model.state_dict(), "mean": evaluated}


def together(case: Case) -> dict[str, Any]:
    """What this rank sees of the training by the plan; without stages, by the best one."""
    model, loss, steps = made(case.model)
    if dist.get_rank() != 0:  # the weights of rank 0 count
        with torch.no_grad():
            for one in model.parameters():
                one.zero_()
    digest = DIGESTS[case.model, case.precision, case.optimizer]
    job = parallel.parallelize(
        model, optimizer=OPTIMIZERS[case.optimizer], loss=loss, example=steps[0],
        global_batch=BATCH, clip=case.clip, precision=case.precision,
        plan=case.plan(digest) if case.stages else None, wishes=WISHES,
    )  # fmt: skip
    case = case.as_planned(job.plan)
    place = job.plan.place(dist.get_rank())
    replica = 0 if place is None else place.replica
    begin = sum(case.shares[:replica])
    mine = [cut(one, begin, begin + case.shares[replica]) for one in steps]
    outs = [job.step(one) for one in mine]
    evaluated = job.evaluate([mine[0]]) if case.precision == "fp32" else None
    return {
        "losses": [float(one.loss) for one in outs],
        "norms": [float(one.grad_norm) for one in outs],
        "mean": evaluated,
        "weights": job.state_dict(),
        "plan": job.plan.text,
        "case": case,
    }


def result(case: Case) -> dict[str, Any]:
    """What a rank tells: of rank 0 how far it is from one process, of the others what they saw."""
    began = time.perf_counter()
    got = together(case)
    weights, case = got.pop("weights"), got.pop("case")
    got["sum"] = math.fsum(float(one.double().sum()) for one in weights.values())
    if dist.get_rank() == 0:
        wanted = alone(case)
        first = made(case.model)[0].state_dict()
        got["names"] = sorted(weights) == sorted(wanted["weights"])
        got["apart"] = {
            "weights": largest(weights, wanted["weights"]),
            **{key: max(abs(a - b) for a, b in zip(got[key], wanted[key], strict=True))
               for key in ("losses", "norms")},
        }  # fmt: skip
        if got["mean"] is not None:
            got["apart"]["mean"] = abs(got["mean"] - wanted["mean"])
        got["moved"] = largest(weights, first)
    got["seconds"] = time.perf_counter() - began
    return got


def largest(some: dict[str, Any], others: dict[str, Any]) -> float:
    """The largest difference of any number."""
    return max(float((some[name] - one).abs().max()) for name, one in others.items())


def rank(number: int, folder: str, cases: list[Case], ranks: int) -> None:
    torch.set_num_threads(1)
    reduce._BUCKET_BYTES = 3000  # several buckets of a small model
    store = dist.FileStore(f"{folder}/store", ranks)
    dist.init_process_group("gloo", store=store, rank=number, world_size=ranks)
    found: dict[str, Any] = {}
    is_whole = True
    for case in cases:
        try:
            found[case.name] = result(case)
        except Exception:
            found[case.name] = {"error": traceback.format_exc()}
            is_whole = False  # the other ranks may wait in a collective
            break
    with open(f"{folder}/{number}", "w", encoding="utf-8") as file:
        json.dump(found, file)
    os._exit(0 if is_whole else 1)


def warm(cases: list[Case]) -> None:
    """Imports and describes what the ranks need, once and not in each of them."""
    from torch.distributed import fsdp, pipelining

    assert fsdp and pipelining
    asked = {(case.model, case.precision, case.optimizer) for case in cases}
    for kind, precision, optimizer in sorted(asked):
        model, loss, steps = made(kind)
        text = text_of(parallel.describe(model, steps[0], loss, precision=precision,
                                         optimizer=OPTIMIZERS[optimizer]))  # fmt: skip
        DIGESTS[kind, precision, optimizer] = digest_of(text)


def end(children: set[int]) -> None:
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def main() -> None:
    torch.set_num_threads(1)
    wanted = sys.argv[1:]
    sets = {"": CASES, "further": FURTHER, "eight": EIGHT}
    cases = sets.get(" ".join(wanted)) or [
        case for case in CASES + FURTHER if case.name in wanted
    ]  # fmt: skip
    warm(cases)
    ranks = cases[0].world
    with tempfile.TemporaryDirectory() as folder:
        children: set[int] = set()
        for number in range(ranks):
            pid = os.fork()
            if pid == 0:
                rank(number, folder, cases, ranks)
            children.add(pid)
        signal.signal(signal.SIGALRM, lambda *_: end(children))
        signal.alarm(SECONDS_MAX)
        while children:
            pid, status = os.wait()
            children.discard(pid)
            if status != 0:
                time.sleep(1)  # the others may write what they saw
                end(children)
        rows = []
        for number in range(ranks):
            try:
                with open(f"{folder}/{number}", encoding="utf-8") as file:
                    rows.append(json.load(file))
            except FileNotFoundError:
                rows.append({})
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main()
