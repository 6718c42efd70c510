"""The bootstrap of a rank: what runs before the first line of its script.

The starter's forked child calls `begin`. A cold start runs this file by its path in a fresh
interpreter.
"""

import sys

if __name__ == "__main__":
    # Run by path: sys.path[0] is this package, whose modules would hide others of the same name. So
    # nothing is imported before, and the folder of `paceline` is first only until this module is
    # loaded.
    _PACKAGE = __file__.rpartition("/_rank/")[0]
    if not sys.flags.safe_path:
        sys.path.pop(0)
    sys.path.insert(0, _PACKAGE.rpartition("/")[0])

import json
import os
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import NoReturn

from paceline._base.launch import Launch, required_plan
from paceline._rank import error_record, flight, output, phases, planned, progress, store
from paceline._rank.entry import Entry, execute
from paceline._rank.flight import open_flight
from paceline._rank.hooks.collectives import watch_collectives
from paceline._rank.hooks.computing import watch_phases
from paceline._rank.hooks.files import watch_files
from paceline._rank.hooks.start import watch_start
from paceline._rank.hooks.steps import watch_steps
from paceline._rank.hooks.trainers import watch_trainers
from paceline._rank.step_times import StepTimes
from paceline._starter import imports
from paceline.errors import PacelineError

_ARGUMENT_MAX = 100_000  # bytes; the kernel takes 128 KiB in one argument
PORT_TAKEN_STATUS = 75  # EX_TEMPFAIL: not the script's fault; the next world gets another port


@dataclass(frozen=True, kw_only=True)
class Birth:
    """What the starter passes to the bootstrap: `Birth(entry=…, store_port=29500, learn=None)`."""

    entry: Entry
    store_port: int = 0
    learn: str | None = None

    def to_json(self) -> str:
        """As one argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Birth":
        """The reverse of `to_json`."""
        fields = json.loads(text)
        entry = fields["entry"]
        return cls(
            entry=Entry(kind=entry["kind"], target=entry["target"], args=tuple(entry["args"])),
            store_port=fields["store_port"],
            learn=fields["learn"],
        )


def begin(birth: Birth) -> None:
    """Run the rank's script in this process. Returns or raises when the script ends."""
    launch = Launch.from_environment()
    session = progress.session()
    if launch.rank == 0 and birth.store_port and not _port_is_free(birth.store_port):
        if session is not None:
            session.port_taken()
        print(f"paceline: the store's port {birth.store_port} is taken", file=sys.stderr)
        raise SystemExit(PORT_TAKEN_STATUS)
    if session is not None:
        learner = imports.Learner(birth.learn) if birth.learn and launch.local_rank == 0 else None
        ring = open_flight(launch)
        times = None if ring is None else StepTimes(ring.writer.step)
        if times is not None:
            progress.time_steps(times)
        watch_steps(
            session.count_step if times is None else _both(session.count_step, times.counted),
            session.hook_installed,
            first=learner.write if learner is not None else None,
            began_at=session.began_at,
        )
        watch_trainers(session.began_at, session.ends_at)
        watch_files(session.file_saved)
        if ring is not None:
            watch_start(ring, launch.world_size)
            watch_phases(ring, watch_collectives(ring))
        if learner is not None:
            learner.write_at_exit()
        session.entered()
    store.be_patient()
    try:
        _execute(birth.entry)
    except SystemExit as end:
        if end.code not in (None, 0):
            error_record.mark()
        raise
    finally:
        own = phases.current()
        if own is not None:
            own.turn(flight.END)


def _execute(entry: Entry) -> None:
    """Run the script. With `paceline run --plan`, one that calls no `parallelize` is an error."""
    if required_plan() is None:
        execute(entry, on_error=error_record.record)
        return
    planned.require()
    try:
        execute(entry, on_error=error_record.record)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    try:
        planned.check_end(entry.target)
    except PacelineError as error:
        error_record.record(error)
        raise error.with_traceback(None) from None


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        first()
        second()

    return both


def _port_is_free(port: int) -> bool:
    """Whether torch's store could listen on `port`: the store binds all addresses, IPv6 first."""
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                # Bind only. If this socket listened, a rank that waits for the store would connect
                # to it.
                probe.bind((address, port))
        except OSError as error:
            if error.errno == 98:  # EADDRINUSE; other errors do not mean that the port is taken
                return False
        else:
            return True
    return True


def cold_command(birth: Birth) -> list[str]:
    """The command line of a cold start with this interpreter."""
    text = birth.to_json()
    pieces = [text[at:at + _ARGUMENT_MAX] for at in range(0, len(text), _ARGUMENT_MAX)]
    return [sys.executable, os.path.abspath(__file__), *pieces]


def _main() -> NoReturn:
    sys.path.pop(0)
    output.outlive_a_full_disk()
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        # Into a file Python would buffer the output, and a killed rank would lose its last lines.
        reconfigure(line_buffering=True)
    birth = Birth.from_json("".join(sys.argv[1:]))
    begin(birth)
    raise SystemExit(0)


if __name__ == "__main__":
    _main()
