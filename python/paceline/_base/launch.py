"""What the launcher tells a process through its environment. Only this module reads it."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PAGE = "PACELINE_PAGE"
SLOT = "PACELINE_SLOT"
RING = "PACELINE_RING"
GENERATION = "PACELINE_GENERATION"
ERROR_FILE = "PACELINE_ERROR_FILE"
WORKER = "PACELINE_WORKER"  # of a job with table servers: this worker's number
WORKERS = "PACELINE_WORKERS"  # and how many there are


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One rank as its launcher describes it: `Launch(page="/run/page", rank=3, …)`."""

    page: str | None
    slot: int
    ring: str | None  # path of the rank's flight ring
    generation: int
    rank: int
    local_rank: int
    world_size: int
    has_world: bool  # the launcher set the world's size
    error_file: str | None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "Launch":
        """Read the environment. A missing or malformed variable counts as not set."""
        env = os.environ if environment is None else environment

        def number(name: str, otherwise: int) -> int:
            try:
                return int(env[name])
            except (KeyError, ValueError):
                return otherwise

        return cls(
            page=env.get(PAGE) or None,
            slot=number(SLOT, 0),
            ring=env.get(RING) or None,
            generation=number(GENERATION, 0),
            rank=number("RANK", number(WORKER, 0)),
            local_rank=number("LOCAL_RANK", 0),
            world_size=number("WORLD_SIZE", number(WORKERS, 1)),
            has_world="WORLD_SIZE" in env,
            error_file=env.get(ERROR_FILE) or None,
        )


def is_worker() -> bool:
    """Whether this is a worker of a job with table servers. Workers restart alone."""
    return WORKER in os.environ


def table_worker() -> int | None:
    """The number of this worker in a job with table servers. None: it is no such worker."""
    number = os.environ.get(WORKER, "")
    return int(number) if number.isdecimal() else None


def table_servers() -> tuple[str, str] | None:
    """The sockets of the job's table servers, with commas, and the job's id. None: there are none.

    Then a process keeps its tables itself.
    """
    sockets = os.environ.get("PACELINE_TABLES") or ""
    return (sockets, os.environ.get("PACELINE_JOB_ID", "")) if sockets else None


def checkpoint_terms() -> tuple[str | None, str | None]:
    """`every` and `keep` from the launcher's flags or settings. They win over the script's."""
    every = os.environ.get("PACELINE_CHECKPOINT_EVERY") or None
    return every, os.environ.get("PACELINE_CHECKPOINT_KEEP") or None


_kept: tuple[str, str] | None = None


def keep_leases(socket: str, folder: str) -> None:
    """Note the socket of a keeper that leases data to this rank of another launcher."""
    global _kept
    _kept = (socket, folder)


def lease_socket() -> str | None:
    """The socket that gives leases to this rank. None for a process without a launcher."""
    return os.environ.get("PACELINE_LEASE_SOCKET") or (_kept[0] if _kept is not None else None)


def start_number() -> int:
    """How often torchrun has restarted its ranks; 0 for other launchers."""
    text = os.environ.get("TORCHELASTIC_RESTART_COUNT", "")
    return int(text) if text.isdigit() else 0


def run_dir() -> str | None:
    """The job's run directory. None for a process without a launcher."""
    return os.environ.get("PACELINE_RUN_DIR") or (_kept[1] if _kept is not None else None)


def required_plan() -> str | None:
    """`paceline run --plan`: "auto", or a plan's file. None: the script needs no plan."""
    return os.environ.get("PACELINE_LAUNCH_PLAN") or None


def agent_socket() -> str | None:
    """The socket of this rank's agent. None if `paceline run` did not start this process."""
    return os.environ.get("PACELINE_CHECKPOINT_SOCKET") or None


def has_one_host() -> bool:
    """Whether all ranks are on this host, if the launcher says so."""
    world = os.environ.get("WORLD_SIZE", "1")
    return os.environ.get("LOCAL_WORLD_SIZE", "") == world


def binary() -> str:
    """The path of the program `paceline`: the one beside this interpreter if there is one."""
    beside = Path(sys.executable).parent / "paceline"
    named = os.environ.get("PACELINE_BIN", "")
    return named or (str(beside) if beside.exists() else "paceline")


def cache_dir() -> Path:
    """The folder for files that may be deleted at any time, `~/.cache/paceline`."""
    return _home_folder("XDG_CACHE_HOME", ".cache") / "paceline"


def state_dir() -> Path:
    """The folder for files that outlive a process, `~/.local/state/paceline`."""
    return _home_folder("XDG_STATE_HOME", ".local/state") / "paceline"


def _home_folder(variable: str, usual: str) -> Path:
    """What `variable` names, else `usual` in the user's home.

    A container's user may have neither HOME nor an entry in the list of users. Then it is a private
    folder below TMPDIR or /tmp.
    """
    named = os.environ.get(variable) or ""
    if named.startswith("/"):
        return Path(named)
    home = os.path.expanduser("~")
    if home.startswith("/"):
        return Path(home, usual)
    private = Path(os.environ.get("TMPDIR") or "/tmp", f"paceline-home-{os.geteuid()}")
    try:
        private.mkdir(mode=0o700, exist_ok=True)
        found = private.lstat()
    except OSError:
        return Path(os.devnull)  # nothing can be kept there, which costs time only
    is_private = found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return private / usual if is_private and private.is_dir() else Path(os.devnull)


def import_environment() -> dict[str, str]:
    """The variables that decide which modules an import finds, such as `PYTHONPATH`."""
    names = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX")
    return {name: os.environ[name] for name in names if name in os.environ}
