"""Planning a script: it runs as far as `parallelize`, which writes the model's summary and ends.

    PACELINE_PLANNING=summary.json python -m paceline.parallel.planning train.py --lr 0.1

The script's tensors are on the meta device and have no content, so a model of any size fits.
Everything else that the script does before `parallelize`, such as writing files, really happens.
`paceline plan` runs this module.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from paceline._rank.hooks.on_import import when_imported
from paceline.errors import PacelineError
from paceline.parallel.errors import PlanError
from paceline.parallel.planning_run import PLANNING, line_of

_MODEL = "paceline plan --model llama-8b, or a Hugging Face config.json"


def main(arguments: list[str]) -> int:
    """Run the script and return the exit status. `parallelize` ends the process before this
    returns.
    """
    from paceline._rank.entry import Entry, execute

    if not arguments or not os.environ.get(PLANNING):
        return _refused(
            PlanError(
                what="there is nothing to plan",
                where="python -m paceline.parallel.planning",
                why=f"it needs a script, and {PLANNING} with the file to write",
                fix="paceline plan --cluster H100-80G:8 train.py",
            )
        )
    script, *rest = arguments
    prepare()
    try:
        entry = Entry(kind="script", target=script, args=tuple(rest))
        execute(entry, on_error=lambda _: None)
    except PacelineError as error:
        return _refused(error)
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return _refused(_needs_values(script, error))
    return _refused(
        PlanError(
            what="the script ended without a model to plan",
            where=script,
            why="it never called paceline.parallel.parallelize",
            fix=f"call it in the script, or {_MODEL}",
        )
    )


def _refused(error: PacelineError) -> int:
    print(f"error[PL-E121]: {error}", file=sys.stderr, flush=True)
    return 1


def _needs_values(script: str, error: Exception) -> PlanError:
    text = str(error).split("\n")[0]
    is_meta = "meta" in text or isinstance(error, NotImplementedError)
    what = "the script needs tensors with content" if is_meta else "the script failed"
    line = line_of(error, script)
    fix = f"mend {line} of the script; python {os.path.basename(script)} shows the same error"
    if is_meta:
        fix = "make model and example from shapes alone, as torch.zeros(8, 3), and leave the "
        fix += f"device to parallelize; or {_MODEL}"
    if "from_pretrained" in text:
        fix = "AutoModelForCausalLM.from_config(config) instead, or the model's config.json: "
        fix += "paceline plan --model config.json"
    return PlanError(
        what=f"{what}, and did not come as far as parallelize",
        where=f"{script}, {line}",
        why=f"{type(error).__name__}: {text}",
        fix=fix,
    )


# ---- changes for a planning run ----


def prepare() -> None:
    """Set up tensors on the meta device, a world of one rank, and Checkpointers that save
    nothing.
    """
    import torch

    alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}  # fmt: skip
    os.environ.update(alone)
    os.environ.setdefault("WANDB_MODE", "disabled")
    torch.set_default_device("meta")
    _be_alone()
    _load_on_the_cpu()
    _keep_nothing()
    when_imported("transformers.modeling_utils", _make_from_configs)


def _be_alone() -> None:
    """Make `init_process_group` of any backend form a world of this process alone, without an
    address.
    """
    from torch import distributed

    dist: Any = distributed
    if not dist.is_available():
        return
    c10d: Any = dist.distributed_c10d
    begin: Callable[..., None] = c10d.init_process_group

    def init_process_group(*_: Any, **__: Any) -> None:
        begin("gloo", store=dist.HashStore(), rank=0, world_size=1)

    c10d.init_process_group = init_process_group
    dist.init_process_group = init_process_group


def _load_on_the_cpu() -> None:
    """Keep DataLoaders and their samples on the CPU, because they draw random seeds and orders.

    Workers would start with the meta device, so this process loads the samples itself.
    """
    import torch
    from torch.utils import data

    kind: Any = data.DataLoader
    begin: Callable[..., Any] = kind.__iter__

    def iterate(loader: Any) -> Any:
        loader.num_workers, loader.timeout, loader.pin_memory = 0, 0, False
        with torch.device("cpu"):
            batches = begin(loader)
        while True:
            with torch.device("cpu"):
                try:
                    batch = next(batches)
                except StopIteration:
                    return
            yield batch

    kind.__iter__ = iterate


# Arguments of `from_pretrained` that change nothing but where its files come from.
_OF_FILES = {"cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder",
             "use_safetensors", "weights_only", "low_cpu_mem_usage", "adapter_kwargs",
             "trust_remote_code", "variant", "proxies"}  # fmt: skip
_OF_MODELS = {"dtype", "torch_dtype", "attn_implementation"}


def _make_from_configs(module: Any) -> None:
    """Make `from_pretrained` of transformers build the model of its config, and load no weights.

    Calls with other arguments, such as a quantization, stay as they are: they refuse the meta
    device.
    """
    kind = module.PreTrainedModel
    begin = kind.from_pretrained.__func__

    def from_pretrained(
        cls: Any, name: Any, *given: Any, config: Any = None, **options: Any
    ) -> Any:
        if given or getattr(config, "quantization_config", None):
            return begin(cls, name, *given, config=config, **options)
        rest = dict(options)
        if not isinstance(config, module.PreTrainedConfig):
            config, rest = cls.config_class.from_pretrained(
                name if config is None else config, return_unused_kwargs=True, **options)
            rest |= {key: options[key] for key in _OF_MODELS & options.keys()}
        if rest.keys() - _OF_FILES - _OF_MODELS or hasattr(config, "quantization_config"):
            return begin(cls, name, config=config, **options)
        wanted = {key: one for key, one in rest.items() if key in _OF_MODELS and one != "auto"}
        return cls._from_config(config, **wanted).eval()

    kind.from_pretrained = classmethod(from_pretrained)


class _Kept:
    """The ticket of a save in a planning run."""

    def __init__(self, step: int) -> None:
        self.step = step

    def wait(self, level: str = "memory", timeout: float | None = None) -> None:
        pass


def _keep_nothing() -> None:
    """Make Checkpointers claim no directory, find no checkpoint and save nothing.

    The methods are replaced in this process, so that the Checkpointer of a training needs no check
    for planning runs.
    """
    from paceline._checkpoint.checkpoint import BaseCheckpointer

    def made(self: Any, directory: Any, **_: Any) -> None:
        self._pid, self._directory = os.getpid(), str(directory)
        self._is_closed = False
        self.skipped, self.restored, self.left_out, self.replaced = 0, "", [], []

    def save(_: Any, step: int, __: Any) -> Any:
        return _Kept(step)

    def restore(_: Any, __: Any, *, strict: bool = True) -> int:
        return 0

    def nothing(*_: Any, **__: Any) -> None:
        pass

    inert: dict[str, Any] = {"__init__": made, "save": save, "restore": restore}
    inert |= dict.fromkeys(("close", "wait_for", "restore_random", "_free"), nothing)
    for name, method in inert.items():
        setattr(BaseCheckpointer, name, method)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
