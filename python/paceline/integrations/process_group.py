"""torch's default process group, through which another launcher's ranks find each other."""

import torch.distributed as dist

from paceline.errors import CheckpointError


class Group:
    """This rank, and small texts that all ranks can read: `group.put("a", "…")`."""

    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self.name = str(dist.distributed_c10d._get_default_group().group_name)  # pyright: ignore
        # The store and not a collective, which would need a device and a backend for it.
        self._store = dist.distributed_c10d._get_default_store()  # pyright: ignore

    def put(self, key: str, text: str) -> None:
        """Publish a text to all ranks."""
        try:
            self._store.set(f"paceline/{self.name}/{key}", text)
        except RuntimeError as error:
            raise _away(error) from error

    def read(self, key: str) -> str | None:
        """The text with this key; None if no rank has published it yet."""
        name = f"paceline/{self.name}/{key}"
        try:
            return self._store.get(name).decode() if self._store.check([name]) else None
        except RuntimeError as error:
            raise _away(error) from error


    def count(self, key: str) -> int:
        """How often all ranks together have called this with this key, including this call."""
        try:
            return int(self._store.add(f"paceline/{self.name}/{key}", 1))
        except RuntimeError as error:
            raise _away(error) from error


def default_group() -> Group | None:
    """The default process group, or None when there is none."""
    return Group() if dist.is_available() and dist.is_initialized() else None


def _away(error: RuntimeError) -> CheckpointError:
    return CheckpointError(
        what="the ranks cannot reach their rendezvous store",
        where="the store of the process group",
        why=str(error).partition("\n")[0],
        fix="if another rank has ended, there is nothing to do: the launcher restarts all ranks",
    )
