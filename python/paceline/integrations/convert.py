"""Converts checkpoints of other formats that need torch.

    paceline ckpt export runs/gpt OUT --to dcp      # as dcp.save writes it
    paceline ckpt import x.pt runs/gpt --step 1000  # or a folder of DCP or Hugging Face

The command runs this module in the job's interpreter.
"""

import argparse
import inspect
import json
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_saver import save

from paceline._checkpoint.checkpoint import BaseCheckpointer
from paceline._restore.fetching import find, newer
from paceline._restore.images import Images, UnreadableError
from paceline._restore.restoring import Framework, Restoring
from paceline._state import notes
from paceline._state.save_plan import SavePlan, State
from paceline._state.wrapper_marks import unmarked
from paceline.errors import CheckpointError
from paceline.integrations import foreign
from paceline.torch import Torch

_WRAPPER = "module."  # DistributedDataParallel's


def export_to_dcp(folder: str, out: str) -> dict[str, object]:
    """Export a checkpoint in the layout that `dcp.save` writes in one process.

    A tensor is `state["model"]["0.weight"]`. Optimizers look as `get_optimizer_state_dict` returns
    them. Returns what `--json` prints.
    """
    if os.path.isdir(out) and os.listdir(out):
        raise CheckpointError(
            what="the checkpoint cannot be exported",
            where=out,
            why="something is in that folder",
            fix="name a folder that is new or empty",
        )
    tensors, work = _everything(folder)
    saved = work.own
    entries = cast("dict[str, notes.Json]", saved.get("entries", {}))
    groups = cast("dict[str, list[list[str]]]", saved.get("constants", {}))
    state: dict[str, Any] = {}
    plain = unmarked(tensors)
    for key, tensor in tensors.items():
        entry, _dot, rest = plain[key].partition(".")
        if entry not in entries:
            state.setdefault(entry, {})[rest] = tensor
    for entry, value in entries.items():
        if entry in groups:
            state[entry] = _optimizer(entry, value, groups[entry], tensors)
        else:
            decoded = notes.decode(value, own=_own(tensors))
            if isinstance(decoded, dict):
                named = {str(name): one for name, one in cast("dict[object, Any]", decoded).items()}
                if set(named) == set(cast("dict[object, Any]", decoded)):
                    short = unmarked(named)
                    decoded = {short[name]: one for name, one in named.items()}
            state[entry] = decoded
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a single process is intended
        # torch before 2.5 detects this by itself.
        alone: Any = {"no_dist": True} if "no_dist" in inspect.signature(save).parameters else {}
        save(state, storage_writer=FileSystemWriter(out), **alone)
    report = _report("paceline.ckpt_export/1", folder, out, list(tensors.values()))
    return {**report, "differing": work.of_rank_0}


def _everything(folder: str) -> tuple[dict[str, torch.Tensor], Restoring]:
    try:
        images = Images.stored(folder, 0)
        images.open_others()
        work = Restoring(Torch(), images, strict=True, size=1)
        tensors: dict[str, torch.Tensor] = {}
        for key in work.saved.names():
            box = work.saved.whole(key)
            assert box is not None
            tensors[key] = cast("torch.Tensor", Torch().tensor_for(box, None))
            work.want(key, tensors[key])
        work.check(folder)
        work.copy()
    except notes.NewerError as error:
        raise newer(folder, error) from error
    except UnreadableError as error:
        raise CheckpointError(
            what="the checkpoint cannot be exported",
            where=folder,
            why=str(error),
            fix=f"paceline ckpt verify {folder} names what is damaged; take another one",
        ) from error
    return tensors, work


def _optimizer(
    entry: str, value: notes.Json, groups: list[list[str]], tensors: Mapping[str, torch.Tensor]
) -> dict[str, Any]:
    decoded = notes.decode(value, own=_own(tensors))
    rest = cast("dict[str, Any]", decoded)
    plain = unmarked(name for group in groups for name in group)
    short = {name: one.partition(".")[2] or name for name, one in plain.items()}
    states: dict[str, dict[str, Any]] = {
        short[name]: dict(scalars) for name, scalars in rest["scalars"].items()
    }
    for key, tensor in tensors.items():
        if key.startswith(f"{entry}.state."):
            name, _dot, what = key.removeprefix(f"{entry}.state.").rpartition(".")
            states.setdefault(short[name], {})[what] = tensor
    listed = [
        {**settings, "params": [short[name] for name in names]}
        for settings, names in zip(rest["param_groups"], groups, strict=True)
    ]
    return {"state": states, "param_groups": listed}


def _own(tensors: Mapping[str, torch.Tensor]) -> notes.Decode:
    def own(kind: str, written: notes.Json, _there: object) -> object:
        if kind == "$array":
            return tensors[str(written)].numpy()
        # Other formats have no type for a random generator: it becomes plain values.
        return tensors[str(written)] if kind == "$tensor" else notes.decode(written, own=own)

    return own


class _Optimizer:
    """A saved state of an optimizer. It names its parameters by number or by name."""

    def __init__(self, value: dict[str, Any], model: str) -> None:
        def named(parameter: object) -> str:
            return f"{model}.{parameter}" if isinstance(parameter, str) else str(parameter)

        groups = cast("list[dict[str, Any]]", value["param_groups"])
        self.names = [[named(one) for one in group["params"]] for group in groups]
        self.tensors: dict[str, torch.Tensor] = {}
        scalars: dict[str, dict[str, object]] = {}
        for parameter, inner in value["state"].items():
            for what, item in inner.items():
                if isinstance(item, torch.Tensor):
                    self.tensors[f"{named(parameter)}.{what}"] = item
                else:
                    scalars.setdefault(named(parameter), {})[what] = item
        settings = [{k: v for k, v in group.items() if k != "params"} for group in groups]
        self.rest = {"param_groups": settings, "scalars": scalars}


class _Importing(Torch):
    def plan_entry(self, plan: SavePlan, key: str, value: object, state: State) -> bool:
        if not isinstance(value, _Optimizer):
            return False
        for name, tensor in value.tensors.items():
            plan.leaves.append(self.leaf(f"{key}.state.{name}", tensor))
        plan.values[key] = lambda: value.rest
        plan.constants[key] = value.names
        return True

    def restore_entry(self, work: Restoring, key: str, value: object, state: State) -> bool:
        if not isinstance(value, _Optimizer):
            return super().restore_entry(work, key, value, state)
        for name, tensor in value.tensors.items():
            work.want(f"{key}.state.{name}", tensor)
        back = work.decoded(key, work.entry(key), value.rest)
        work.compare(key, lambda: value.rest, back)
        return True


class _Checkpointer(BaseCheckpointer):
    _keeps_all = True  # an import removes nothing, even with PACELINE_CHECKPOINT_KEEP

    def _make_framework(self) -> Framework:
        return _Importing()


def import_file(source: str, directory: str, *, step: int, entry: str) -> dict[str, object]:
    """Import the result of `foreign.read` as a checkpoint of `step` that any world can restore.

    Uses a keeper of its own, so /dev/shm needs room for the state. Returns what `--json` prints.
    """
    loaded = foreign.read(source)
    if any(isinstance(value, torch.Tensor) for value in loaded.values()):
        loaded = {entry: loaded}  # the state_dict of one module
    state: dict[str, object] = {}
    for key, value in loaded.items():
        if isinstance(value, dict) and {"state", "param_groups"} <= set(value):
            value = _Optimizer(cast("dict[str, Any]", value), entry)  # noqa: PLW2901
        elif isinstance(value, dict) and value and all(str(k).startswith(_WRAPPER) for k in value):
            value = {str(k).removeprefix(_WRAPPER): v for k, v in value.items()}  # noqa: PLW2901
        state[key] = value
    with _Checkpointer(directory) as ckpt:
        ckpt.save(step, state)
    return _report("paceline.ckpt_import/1", source, find(directory), list(_tensors_of(state)))


def _tensors_of(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, _Optimizer):
        yield from value.tensors.values()
    elif isinstance(value, dict):
        for one in cast("dict[object, object]", value).values():
            yield from _tensors_of(one)
    elif isinstance(value, list | tuple):
        for one in cast("list[object]", value):
            yield from _tensors_of(one)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="paceline ckpt")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    verbs = parser.add_subparsers(dest="verb", required=True)
    out = verbs.add_parser("export", help="a checkpoint to a folder of DCP")
    out.add_argument("source", help="a Checkpointer's directory, or one checkpoint in it")
    out.add_argument("target", help="a folder that is new or empty")
    into = verbs.add_parser("import", help="a .pt file or a folder to a checkpoint")
    into.add_argument("source")
    into.add_argument("target", help="a Checkpointer's directory")
    into.add_argument("--step", type=int, default=0, help="the step that it gets")
    into.add_argument("--entry", default="model", help="entry of the state that is the model")
    args = parser.parse_args(words)
    is_import = args.verb == "import"
    try:
        if is_import:
            done = import_file(args.source, args.target, step=args.step, entry=args.entry)
        else:
            done = export_to_dcp(find(args.source), args.target)
    except CheckpointError as error:
        _tell_error(error, "PL-E083" if is_import else "PL-E082", is_json=args.json)
        return 2
    if args.json:
        print(json.dumps(done))
    else:
        size = f"{done['tensors']} tensors, {done['bytes']} bytes"
        print(f"wrote {size}, to {done['to']}", file=sys.stderr)
        for name in cast("list[str]", done.get("differing", [])):
            print(f"{name} differs between ranks: rank 0's was taken", file=sys.stderr)
    return 0


def _tell_error(error: CheckpointError, code: str, *, is_json: bool) -> None:
    if not is_json:
        print(f"error[{code}]: {error}", file=sys.stderr)
        return
    fields = {
        "schema": "paceline.error/1",
        "code": code,
        "message": error.what,
        "cause": error.why,
        "where": error.where,
        "fix": error.fix,
        "docs": f"docs/errors.md#{code}",
    }
    print(json.dumps(fields))


def _report(schema: str, source: str, target: str,
            tensors: list[torch.Tensor]) -> dict[str, object]:
    return {
        "schema": schema,
        "from": source,
        "to": target,
        "tensors": len(tensors),
        "bytes": sum(tensor.nbytes for tensor in tensors),
    }


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
