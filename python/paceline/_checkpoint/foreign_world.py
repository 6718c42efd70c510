"""How the ranks of another launcher (torchrun, accelerate, srun, Ray) agree on their world.

Each rank puts its host and what it wants to save into the process group's store. Rank 0 answers
with the world: the host of each rank, and a random word, the attempt, which names this start of all
ranks. docs/formats/checkpoint_socket.md describes what the keeper gets of it.

torchrun may reuse one store, with its old entries, for the next start. So each rank adds a random
word of its own. A rank accepts a world that was made with its word, and the world is valid when all
ranks have confirmed it.
"""

import json
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from paceline._base.processes import parent_of, start_time
from paceline._base.wording import say
from paceline.errors import CheckpointError

Fields = dict[str, object]
# Makes this host's keeper the leader of the other hosts' keepers. Returns their join string.
Lead = Callable[[Fields], str]

# A launcher sets one of these for its ranks and has none of them itself.
_RANK_NAMES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_PAUSE_SECONDS = 0.005
_PAUSE_SECONDS_MAX = 0.05
_TELL_SECONDS = 10.0
_GIVE_UP_SECONDS = 600.0


class Group(Protocol):
    """See `paceline.integrations.process_group.Group`."""

    rank: int
    size: int
    name: str

    def put(self, key: str, text: str) -> None: ...
    def read(self, key: str) -> str | None: ...


@dataclass(frozen=True)
class ForeignWorld:
    """The world as rank 0 published it: `meet(group, …).words` go to the keeper."""

    words: Fields
    starts_keeper: bool  # this rank is the first one on its host
    key: str  # of the images in memory
    in_directory: str | None = None  # see `directory_id.look_up`


def find_group(directory: str) -> Group | None:
    """The process group of several ranks; None for a single process."""
    group: Group | None = None
    if "torch.distributed" in sys.modules:
        from paceline.integrations.process_group import default_group

        group = default_group()
    if group is not None:
        return group if group.size > 1 else None
    if os.environ.get("WORLD_SIZE", "1") in ("", "0", "1"):
        return None
    raise CheckpointError(
        what="the ranks cannot find each other, because there is no process group",
        where=directory,
        why=f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, and torch.distributed is not initialized",
        fix="call init_process_group first, then make the Checkpointer on every rank",
    )


_met: dict[str, int] = {}  # by group name: how many worlds this process has joined


@dataclass(frozen=True)
class Own:
    """What a rank contributes to the agreement."""

    directory: str
    terms: Fields
    folder: Path  # has the keeper's socket
    key: str = ""  # of the images in memory; rank 0's is used, as its in_directory is
    in_directory: str | None = None


def meet(group: Group, own: Own, lead: Lead) -> ForeignWorld:
    """The world that all callers agree on; the same on every rank."""
    number = _met[group.name] = _met.get(group.name, 0) + 1
    host = _host(own.folder)
    word: Fields = {"word": secrets.token_hex(16), "host": host, "terms": own.terms}
    address = _address_towards(os.environ.get("MASTER_ADDR", ""))
    word |= {"address": address, "key": own.key, "in_directory": own.in_directory}
    talk = _Talk(group, f"{number}", word)
    world = talk.lead(lead) if group.rank == 0 else talk.follow()
    if "why" in world:
        raise CheckpointError(
            what="ranks disagree about their checkpoints",
            where=own.directory,
            why=str(world["why"]),
            fix="give every rank's Checkpointer the same arguments, and use one Checkpointer in "
                "a job",
            is_final=True,
        )
    seats = cast("list[list[int]]", world["seats"])
    index = cast("list[str]", world["hosts"]).index(host)
    words: Fields = {"attempt": world["attempt"], "seats": seats, "host": index}
    if "join" in world:
        words |= {"join": world["join"], "address": address}
    first = next(seat[1] for seat in seats if seat[0] == index)
    seen = cast("str | None", world["in_directory"])
    return ForeignWorld(words, first == group.rank, str(world["key"]), seen)


class _Talk:
    """One agreement through the group's store."""

    def __init__(self, group: Group, number: str, word: Fields) -> None:
        self._group = group
        self._number = number
        self._word = word
        self._began = time.monotonic()
        self._pause = _PAUSE_SECONDS
        self._has_told = False
        self._put(f"rank/{group.rank}", word)

    def lead(self, lead: Lead) -> Fields:
        """Publish the world, and publish a new one whenever a rank's word has changed."""
        others = range(1, self._group.size)
        made_of: list[object] = []
        world: Fields = {}
        while True:
            words = [self._word, *(self._read(f"rank/{rank}") for rank in others)]
            missing = [rank for rank in others if not words[rank]]
            own_words = [one.get("word") for one in words]
            if not missing and own_words != made_of:
                made_of = own_words
                world = {**_agree(words, lead), "made_of": made_of}
                self._put("world", world)
            if not missing:
                said = {rank: self._read(f"confirmed/{rank}").get("attempt") for rank in others}
                missing = [rank for rank, attempt in said.items() if attempt != world["attempt"]]
            if not missing:
                self._put("begins", {"attempt": world["attempt"]})
                return world
            self._wait(missing)

    def follow(self) -> Fields:
        """Wait for a world that contains this rank's word and that all ranks have confirmed."""
        rank = self._group.rank
        confirmed: object = None
        while True:
            world = self._read("world")
            made_of = cast("list[object]", world.get("made_of", []))
            if len(made_of) == self._group.size and made_of[rank] == self._word["word"]:
                if confirmed != world["attempt"]:
                    confirmed = world["attempt"]
                    self._put(f"confirmed/{rank}", {"attempt": confirmed})
                if self._read("begins").get("attempt") == confirmed:
                    return world
            self._wait([0] if confirmed is None else [])

    def _put(self, key: str, words: Fields) -> None:
        self._group.put(f"{self._number}/{key}", json.dumps(words))

    def _read(self, key: str) -> Fields:
        return cast("Fields", json.loads(self._group.read(f"{self._number}/{key}") or "{}"))

    def _wait(self, missing: list[int]) -> None:
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, _PAUSE_SECONDS_MAX)
        waited = time.monotonic() - self._began
        if missing and waited > _TELL_SECONDS and not self._has_told:
            self._has_told = True
            text = f"waits for the Checkpointer of {_listed(missing)}: each rank makes one"
            say(text)
        if waited > _GIVE_UP_SECONDS:
            raise CheckpointError(
                what=f"rank {self._group.rank} is alone with its Checkpointer",
                where="the process group",
                why=f"{_listed(missing or [0])} made none for {_GIVE_UP_SECONDS / 60:.0f} minutes",
                fix="make the Checkpointer on every rank, at the same place of the script",
            )


def _agree(words: list[Fields], lead: Lead) -> Fields:
    """The world made of these words, or the error why there is none."""
    attempt = secrets.token_hex(16)
    for rank, word in enumerate(words):
        if word["terms"] != words[0]["terms"]:
            mine, other = (cast("Fields", one["terms"]) for one in (words[0], word))
            names = [name for name in {**mine, **other} if mine.get(name) != other.get(name)]
            told = "; ".join(f"{n} is {mine.get(n)} on rank 0, {other.get(n)}" for n in names)
            return {"attempt": attempt, "why": f"{told} on rank {rank}"}
    hosts: list[str] = []
    seats: list[list[int]] = []
    for rank, word in enumerate(words):
        if word["host"] not in hosts:
            hosts.append(str(word["host"]))
        host = hosts.index(str(word["host"]))
        if seats and seats[-1][0] == host:
            seats[-1][2] += 1
        else:
            seats.append([host, rank, 1])
    told = {name: words[0][name] for name in ("key", "in_directory")}
    world: Fields = {"attempt": attempt, "seats": seats, "hosts": hosts, **told}
    if len(hosts) > 1:
        other = next(word for word in words if word["host"] != hosts[0])
        address = _address_towards(str(other["address"]))
        world["join"] = lead({"attempt": attempt, "address": address})
    return world


def _address_towards(host: str) -> str:
    """This host's address on the route to `host`. Sends nothing."""
    try:
        family, kind, _protocol, _name, place = socket.getaddrinfo(
            host or socket.gethostname(), 9, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind) as way:
            way.connect(place)
            return str(way.getsockname()[0])
    except OSError:
        return socket.gethostname()


def _host(folder: Path) -> str:
    """The identity of this host: equal for two processes that find the same socket in `folder`."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    found = folder.stat()
    return f"{socket.gethostname()} {boot_id} {found.st_dev:x}:{found.st_ino:x}"


def _listed(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:8]))
    if len(ranks) > 8:
        shown += f" and {len(ranks) - 8} more"
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"


def launcher() -> Fields:
    """The process that started this rank. Images stay in memory while it lives.

    It is the nearest ancestor that is not itself a rank: torchrun or srun's step. A worker of Ray
    gets its rank after its start, so for it, and for a single process, it is the process itself.
    """
    own = _environment(os.getpid())
    name = next((name for name in _RANK_NAMES if name in own), None)
    pid, start = os.getpid(), start_time(os.getpid())
    while name is not None and name in _environment(pid):
        parent = parent_of(pid)
        if parent <= 0 or start_time(parent) == 0:
            break
        pid, start = parent, start_time(parent)
    return {"pid": pid, "start": start}


def _environment(pid: int) -> set[str]:
    """Names of the variables that a process started with; empty if they cannot be read."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return set()
    return {entry.partition(b"=")[0].decode(errors="replace") for entry in text.split(b"\0")}
