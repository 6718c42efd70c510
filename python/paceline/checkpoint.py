"""Checkpoints without a framework: what `paceline.torch` builds on.

A `Framework` knows tensors; plans, notes and the way back are here. Images are written and read by
`paceline._native`; who keeps them, and what goes to storage, is decided behind a socket.
"""

import json
import os
import random
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Protocol, cast

from paceline import notes, progress
from paceline._native import Image, Layout, LivePlan, Manifest, Saver
from paceline.checkpoint_link import Fields, Link, Refused
from paceline.interval import parse_every
from paceline.plan import Box, CheckpointError, Framework, Leaf, Place, Plan, State
from paceline.restoring import Restoring, Source


class Ticket:
    """One save. `wait("memory")` returns at once, `wait("durable")` when storage has that step."""

    def __init__(self, owner: "BaseCheckpointer", step: int, *, is_saved: bool) -> None:
        self.step = step
        self.is_saved = is_saved  # False: every slot was in use, this step is left out
        self._owner = owner

    def wait(self, level: str = "durable") -> None:
        if level not in ("memory", "durable"):
            raise ValueError(f'a level is "memory" or "durable", not {level!r}')
        if level == "durable" and self.is_saved:
            self._owner.wait_durable(self.step)


class BaseCheckpointer:
    """Saves and restores a state, a dict by name; see `paceline.torch.Checkpointer`."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        framework: Framework,
        keep: int,
        every: str | int | None,
        replicated: bool | None,
    ) -> None:
        if keep < 1:
            raise CheckpointError(
                what=f"keep={keep} would keep no checkpoint",
                where="Checkpointer",
                why="the newest complete one always stays",
                fix="keep=1 or more",
            )
        self._framework = framework
        self._replicated = replicated
        self._directory = os.path.abspath(os.fspath(directory))
        self._terms: Fields = {
            "directory": self._directory,
            "keep": keep,
            "every": parse_every(every),
        }
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        self._place, self._socket = _find_keeper(self._directory)
        self._link = Link(self._socket, self._hello(0))
        if self._place.generation < 0:  # the keeper alone knows the world
            self._place = Place(0, 1, cast("int", self._link.opened["generation"]))
        self._saver: Saver | None = None
        self._opening: Future[Saver] | None = None
        self._plan: Plan | None = None
        self._live: LivePlan | None = None
        self._layout: Layout | None = None
        self._entries: tuple[tuple[str, int], ...] = ()
        self._constants = "}"  # the end of every notes' text
        self._last: Ticket | None = None
        self._is_replica = False
        self.skipped = 0  # saves that were left out because every slot was in use
        self.restored = ""  # one sentence: from where the state came

    # ---- saving ----

    def save(self, step: int, state: State) -> Ticket:
        """Copy the state after step `step` to memory; what goes to storage is decided elsewhere."""
        if step < 0:
            raise ValueError("a step is 0 or more")
        self._make_current(state)
        assert self._plan is not None and self._layout is not None and self._live is not None
        text = self._notes(step)
        self._framework.refresh(self._plan.leaves)
        saver = self._saver_for(self._layout.file_bytes + len(text))
        is_saved = saver.save(
            self._layout,
            self._live,
            text,
            self._place.generation,
            step,
            self._place.world_size,
            self._is_replica,
        )
        if is_saved:
            self._link.tell({"op": "sealed"})
        else:
            self.skipped += 1
        progress.step(step)
        self._last = Ticket(self, step, is_saved=is_saved)
        return self._last

    def wait_durable(self, step: int) -> None:
        try:
            self._link.request({"op": "wait", "step": step}, "durable")
        except Refused as refused:
            raise _error(refused, self._directory) from refused

    def close(self) -> None:
        """Wait until the last save is in storage. A second call does nothing."""
        last, self._last = self._last, None
        if last is not None:
            last.wait("durable")
        self._link.close()

    def __enter__(self) -> "BaseCheckpointer":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()

    def _make_current(self, state: State) -> None:
        entries = tuple((key, id(value)) for key, value in state.items())
        plan = self._plan
        if (
            plan is not None
            and plan.is_lasting
            and entries == self._entries
            and all(getattr(o, name) is value for o, name, value in plan.attributes)
            and self._live is not None
            and self._live.is_current()
        ):
            return
        plan = self._make_plan(state)
        self._plan = plan
        self._entries = entries
        self._layout = Layout(
            [(leaf.key, leaf.box.dtype, leaf.box.shape, leaf.box.offset) for leaf in plan.leaves]
        )
        self._live = LivePlan(
            [(leaf.container, leaf.name, leaf.found, leaf.memory) for leaf in plan.leaves],
            plan.links,
            plan.sizes,
        )
        sharded = {leaf.key: leaf.box.whole for leaf in plan.leaves if leaf.box.is_sharded}
        constants = {"constants": plan.constants, "shapes": sharded}
        self._constants = json.dumps(constants, separators=(",", ":"))[1:]
        self._is_replica = (
            self._replicated
            if self._replicated is not None
            else not sharded and self._framework.is_replica(state)
        )

    def _make_plan(self, state: State) -> Plan:
        plan = Plan()
        for key, value in state.items():
            if self._framework.plan_entry(plan, key, value, state):
                continue
            plan.is_lasting = False if _has_state(value) else plan.is_lasting
            self._plan_value(plan, key, _value_of(value))
            plan.values[key] = _later(value)
        return plan

    def _plan_value(self, plan: Plan, key: str, value: object) -> None:
        """The tensors anywhere in plain containers."""
        if self._framework.is_tensor(value):
            plan.leaves.append(self._framework.leaf(key, value))
            plan.is_lasting = False
        elif isinstance(value, Mapping):
            for name, item in cast("Mapping[object, object]", value).items():
                self._plan_value(plan, f"{key}.{name}", item)
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(cast("list[object]", value)):
                self._plan_value(plan, f"{key}.{i}", item)

    def _notes(self, step: int) -> bytes:
        assert self._plan is not None

        def tensor(where: str, value: object) -> object | None:
            return {"$tensor": where} if self._framework.is_tensor(value) else None

        try:
            entries = {
                key: _encode_entry(key, value(), tensor) for key, value in self._plan.values.items()
            }
        except notes.NotesError as error:
            raise CheckpointError(
                what="the state holds something that a checkpoint cannot hold",
                where=self._directory,
                why=str(error),
                fix="take it out of the state, or give it a state_dict of plain values and tensors",
            ) from error
        text = {
            "schema": "paceline.notes/1",
            "rank": self._place.rank,
            "world_size": self._place.world_size,
            "step": step,
            "random": notes.encode(self._random_state(), where="random"),
            "entries": entries,
        }
        head = json.dumps(text, separators=(",", ":"))[:-1]
        return f"{head},{self._constants}".encode()

    def _random_state(self) -> dict[str, object]:
        version, words, gauss = random.getstate()
        packed = b"".join(word.to_bytes(4, "little") for word in words)
        return {"python": [version, packed, gauss], **self._framework.random_state()}

    def _saver_for(self, image_bytes: int) -> Saver:
        image_bytes += 1 << 16  # notes grow a little
        if self._saver is None and self._opening is None:
            self._open(image_bytes)
        if self._opening is not None:
            opening, self._opening = self._opening, None
            try:
                self._saver = opening.result()
            except (OSError, RuntimeError) as error:
                raise CheckpointError(
                    what="there is no memory for this rank's checkpoints",
                    where=self._directory,
                    why=str(error),
                    fix="fewer ranks on this host, a larger /dev/shm, or less state",
                ) from error
            self._link.tell({"op": "ready"})
        assert self._saver is not None
        if self._saver.image_bytes_max >= image_bytes:
            return self._saver
        self._saver = None  # gives its lock back, for a larger one
        return self._saver_for(image_bytes)

    def _open(self, image_bytes: int) -> None:
        """Make the arena in the background: the kernel has to find and clear all its memory."""
        image_bytes += image_bytes // 64
        try:
            self._link.reopen(self._hello(image_bytes))
        except Refused as refused:
            raise _error(refused, self._directory) from refused
        opened = self._link.opened
        opening: Future[Saver] = Future()

        def make() -> None:
            try:
                saver = Saver.open(
                    str(opened["arena"]),
                    str(opened["job_id"]),
                    str(opened["boot_id"]),
                    self._place.rank,
                    image_bytes,
                    cast("int", opened["slots"]),
                )
            except (OSError, RuntimeError) as error:
                opening.set_exception(error)
                return
            opening.set_result(saver)
            saver.populate()

        threading.Thread(target=make, name="arena", daemon=True).start()
        self._opening = opening

    def _hello(self, image_bytes: int) -> Fields:
        return {
            "op": "open",
            "rank": self._place.rank,
            **({"generation": self._place.generation} if self._place.generation >= 0 else {}),
            "pid": os.getpid(),
            "image_bytes": image_bytes,
            **self._terms,
        }

    # ---- restoring ----

    def restore(self, state: State, *, strict: bool = True) -> int:
        """Fill `state` with the newest whole step that all ranks can have; the step to do next.

        0 when there is no checkpoint. With `strict=False` what does not fit is left out, and
        `restored` says what.
        """
        try:
            answer = self._link.request({"op": "restore"}, "restore")
        except Refused as refused:
            raise _error(refused, self._directory) from refused
        self.restored = str(answer.get("reason", ""))
        if answer.get("damaged"):
            raise CheckpointError(
                what="every checkpoint is damaged",
                where=self._directory,
                why=f"the last that was tried is {answer['damaged']}",
                fix=f"paceline ckpt verify {self._directory}; to begin anew, another directory",
            )
        if answer.get("from") == "nothing":
            self._prepare(state)
            return 0
        sources, own = self._sources(answer)
        work = Restoring(sources, own, strict=strict)
        for key, value in state.items():
            if not self._framework.restore_entry(work, key, value, state):
                self._restore_value(work, key, value, state)
        entries = cast("dict[str, object]", own.get("entries", {}))
        for key in sorted(set(entries) - set(state)):
            (work.problems if strict else work.left_out).append(
                f"{key} was saved, and the state has no such entry"
            )
        work.leave_rest()
        if work.problems:
            raise CheckpointError(
                what=f"the checkpoint of step {answer['step']} does not fit the state",
                where=str(answer.get("path", "memory")),
                why="; ".join(work.problems[:8])
                + (f"; and {len(work.problems) - 8} more" if len(work.problems) > 8 else ""),
                fix="make the state as it was saved, or restore(state, strict=False)",
            )
        self._copy(work, answer)
        self._restore_random(own)
        if work.left_out:
            self.restored += f"; left out: {', '.join(work.left_out)}"
        self._prepare(state)
        return cast("int", answer["step"]) + 1

    def _prepare(self, state: State) -> None:
        """Make room for the first save now, and map it in the background."""
        self._make_current(state)
        assert self._layout is not None
        if self._saver is None and self._opening is None:
            # Optimizers have their state after the first step only.
            expected = self._framework.expected_bytes(state)
            self._open(max(self._layout.file_bytes + (1 << 20), expected))

    def _sources(self, answer: Fields) -> tuple[list[Source], dict[str, object]]:
        generation, step = cast("int", answer["generation"]), cast("int", answer["step"])
        opened = self._link.opened
        sources: list[Source] = []
        try:
            if answer["from"] == "memory":
                for one in cast("list[dict[str, object]]", answer["images"]):
                    rank = cast("int", one["rank"])
                    image = Image.in_memory(
                        str(one["path"]),
                        str(opened["job_id"]),
                        str(opened["boot_id"]),
                        rank,
                        generation,
                        step,
                    )
                    sources.append(Source(image, rank, image.boxes()))
            else:
                folder = str(answer["path"])
                manifest = Manifest.read(folder)
                same = manifest.world_size == self._place.world_size
                ranks = [self._place.rank] if same else range(manifest.world_size)
                for rank in ranks:
                    image = manifest.image(folder, rank)
                    sources.append(Source(image, rank, image.boxes()))
        except (LookupError, OSError, RuntimeError) as error:
            raise self._damaged(answer, error) from error
        nearest = next((s for s in sources if s.rank == self._place.rank), sources[0])
        own = cast("dict[str, object]", json.loads(nearest.image.notes))
        return sources, own

    def _copy(self, work: Restoring, answer: Fields) -> None:
        try:
            work.copy(self._framework)
        except (LookupError, OSError) as error:
            raise self._damaged(answer, error) from error

    def _damaged(self, answer: Fields, error: Exception) -> CheckpointError:
        """Tell the keeper, so that nobody takes it again; the next world takes an older one."""
        if answer.get("from") == "storage":
            self._link.tell({"op": "damaged", "name": answer.get("name")})
        else:
            for one in cast("list[dict[str, object]]", answer.get("images", [])):
                self._link.tell(
                    {
                        "op": "damaged",
                        "place": one["place"],
                        "rank": one["rank"],
                        "generation": answer["generation"],
                        "step": answer["step"],
                    }
                )
        return CheckpointError(
            what=f"step {answer.get('step')} cannot be restored",
            where=str(answer.get("path", "memory")),
            why=str(error),
            fix="nothing to do under paceline run: it goes on from the newest step that is whole",
        )

    def _restore_value(self, work: Restoring, key: str, value: object, state: State) -> None:
        entries = cast("dict[str, object]", work.own.get("entries", {}))
        if key not in entries:
            (work.problems if work.strict else work.left_out).append(f"{key} was not saved")
            return

        def tensor(name: str) -> object:
            saved = work.saved_box(name)
            if saved is None:
                work.problems.append(f"{name} was not saved")
                return None
            made = self._framework.new_tensor(saved)
            work.want(Leaf(name, Box(saved.dtype, saved.shape, saved.offset, saved.whole), made))
            return made

        decoded = notes.decode(entries[key], tensor=tensor)
        if _has_state(value):
            work.after.append(lambda: _load(value, decoded))
        else:
            work.after.append(lambda: state.__setitem__(key, decoded))

    def _restore_random(self, own: dict[str, object]) -> None:
        # Another rank's chance is not this one's: a rank that is new goes its own way.
        is_resized = own.get("world_size") != self._place.world_size
        if is_resized or own.get("rank") != self._place.rank:
            why = "the world has another size" if is_resized else "its own went with its host"
            self.restored += f"; random numbers begin anew, because {why}"
            return
        state = cast("dict[str, object]", notes.decode(own.get("random", {})))
        version, packed, gauss = cast("tuple[int, bytes, float | None]", state.pop("python"))
        words = tuple(
            int.from_bytes(packed[i : i + 4], "little") for i in range(0, len(packed), 4)
        )
        random.setstate((version, words, gauss))
        self._framework.set_random_state(state)


class _Stateful(Protocol):
    def state_dict(self) -> object: ...
    def load_state_dict(self, state: object) -> object: ...


def _has_state(value: object) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _load(value: object, decoded: object) -> None:
    cast("_Stateful", value).load_state_dict(decoded)


def _value_of(value: object) -> object:
    return cast("_Stateful", value).state_dict() if _has_state(value) else value


def _later(value: object) -> Callable[[], object]:
    return lambda: _value_of(value)


def _encode_entry(
    key: str, value: object, tensor: Callable[[str, object], object | None]
) -> object:
    """Tensors are named by the way to them, as `_plan_value` names them."""

    def walk(where: str, item: object) -> object:
        if isinstance(item, Mapping) and type(item) is not dict:
            item = dict(cast("Mapping[object, object]", item))
        if isinstance(item, dict):
            pairs = [
                (name, walk(f"{where}.{name}", inner))
                for name, inner in cast("dict[object, object]", item).items()
            ]
            if all(isinstance(name, str) and not name.startswith("$") for name, _ in pairs):
                return dict(pairs)
            return {"$dict": [[notes.encode(name, where=where), inner] for name, inner in pairs]}
        if type(item) in (list, tuple):
            inner = [walk(f"{where}.{i}", one) for i, one in enumerate(cast("list[object]", item))]
            return inner if isinstance(item, list) else {"$tuple": inner}
        return notes.encode(item, where=where, tensor=tensor)

    return walk(key, value)


def _error(refused: Refused, directory: str) -> CheckpointError:
    return CheckpointError(
        what=refused.what, where=directory, why=refused.why, fix=refused.fix
    )


def _find_keeper(directory: str) -> tuple[Place, str]:
    path = os.environ.get("PACELINE_CHECKPOINT_SOCKET", "")
    if path:
        place = Place(progress.rank(), progress.world_size(), progress.generation())
        return place, path
    from paceline.private_keeper import start

    return start(directory)
