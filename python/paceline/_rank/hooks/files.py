"""Reports the checkpoints that an unmodified script writes.

They show that the job makes progress. Only a complete checkpoint on a path counts: from torch.save
and safetensors' save_file to a path, and from the writers of torch's distributed checkpoints.
"""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from paceline._rank.hooks.on_import import when_imported


def watch_files(report: Callable[[], None]) -> None:
    """Call `report` after each checkpoint that this process has written to a path.

    Example: `watch_files(session.file_saved)`.
    """

    def watch_torch(module: Any) -> None:
        saves = _after_path(module.save, 1, report)
        module.save = saves
        torch: Any = sys.modules.get("torch")
        if hasattr(torch, "save"):  # torch is already imported, by the starter
            torch.save = saves

    def watch_safetensors(module: Any) -> None:
        module.save_file = _after_path(module.save_file, 1, report)

    def watch_dcp(module: Any) -> None:
        writer = module.FileSystemWriter
        writer.finish = _after(writer.finish, report)

    when_imported("torch.serialization", watch_torch)
    when_imported("safetensors.torch", watch_safetensors)
    when_imported("torch.distributed.checkpoint.filesystem", watch_dcp)


def _after_path(save: Callable[..., Any], place: int, report: Callable[[], None]) -> Any:
    """`save`, whose argument number `place` is a path or a file object."""

    @functools.wraps(save)
    def saves(*args: Any, **kwargs: Any) -> Any:
        result = save(*args, **kwargs)
        to = args[place] if len(args) > place else kwargs.get("f", kwargs.get("filename"))
        if isinstance(to, (str, os.PathLike)):
            report()
        return result

    return saves


def _after(call: Callable[..., Any], report: Callable[[], None]) -> Any:
    @functools.wraps(call)
    def calls(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        report()
        return result

    return calls
