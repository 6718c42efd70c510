"""Start a job on a Ray cluster, and find it again."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline.__main__ import command
from paceline.errors import PacelineError
from paceline.integrations.ray.adapter import Adapter, adapter_name
from paceline.integrations.ray.calls import (
    NAMESPACE,
    ActorError,
    find_actor,
    get,
    is_there,
    ray,
    start_actor,
)
from paceline.integrations.ray.spec import JobSpec
from paceline.integrations.ray.store import Store

_CONNECT_SECONDS = 5.0
# An adapter needs no resources, so it is started within this time unless Ray is in trouble.
_ADAPTER_SECONDS = 20.0
# Between two looks at the store, and at the adapter.
_PAUSE_SECONDS = 0.5
_LOOK_SECONDS = 2.0


class RayError(PacelineError):
    """Ray, or a job on it, cannot do what was asked; in four parts."""

    exit_code = 3
    """Of the command that ends with this error."""


class RequestError(RayError):
    """What was asked for is not possible; Ray itself is well."""

    exit_code = 2


def connect(address: str = "", working_dir: str = "") -> None:
    """Connect this process to Ray, unless it is connected.

    Args:
        address: of the cluster; "": RAY_ADDRESS, or the cluster of this host.
        working_dir: a directory that Ray brings to the nodes; "": none.

    Raises:
        RayError: no cluster answers at that address.
        RequestError: there is no such directory.
    """
    if ray.is_initialized():
        return
    if working_dir and not os.path.isdir(working_dir):
        raise RequestError(what="the working directory cannot be brought to Ray's nodes",
                           where=working_dir, why="there is no such directory here",
                           fix="--working-dir names a directory of this host")
    _check_answers(address or os.environ.get("RAY_ADDRESS", ""))
    runtime_env = {"working_dir": working_dir} if working_dir else {}
    try:
        ray.init(address=address or "auto", namespace=NAMESPACE, runtime_env=runtime_env,
                 log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise RayError(what="no Ray cluster answers", where=address or "RAY_ADDRESS, or this host",
                       why=str(error).strip().splitlines()[0],
                       fix="ray start --head   starts one; --ray HOST:PORT names it") from error


def _check_answers(address: str) -> None:
    """Ray's own client tries for minutes. RayError: nobody listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return  # "auto", "ray://…" and the like are Ray's to read
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        raise RayError(what="no Ray cluster answers", where=address, why=str(error),
                       fix="ray start --head   starts one; --ray HOST:PORT names it") from error


def submit(spec: JobSpec, files: dict[str, bytes] | None = None) -> None:
    """Start the job's adapter. The process must be connected to Ray.

    Args:
        spec: the job. `runtime_env` is completed by the working directory of this connection.
        files: brought to the directory PACELINE_RAY_FILES of each node, by name.

    Raises:
        RequestError: a job of that name runs.
    """
    store = Store(spec.name)
    if find_adapter(spec.name) is not None:
        raise RequestError(what=f"a job {spec.name} runs already", where="the Ray cluster",
                           why="the names of jobs on one cluster differ",
                           fix="--name (in Python: name=…) gives it another one; paceline stop "
                               f"--on ray/{spec.name} stops the first")
    store.forget()
    uri = (ray.get_runtime_context().runtime_env or {}).get("working_dir")
    if uri:
        spec = replace(spec, runtime_env=spec.runtime_env | {"working_dir": uri})
    for name, value in _make_credentials(spec.name).items():
        store.write(f"credentials/{name}", value)
    for name, value in (files or {}).items():
        store.write(f"files/{name}", value)
    store.write_json("files", sorted(files or {}))
    store.write("spec", spec.to_json().encode())
    start_actor(Adapter, adapter_name(spec.name), spec.name,
                num_cpus=0, max_restarts=-1, max_concurrency=64)


def find_adapter(job: str) -> Any:
    """The actor of the job's adapter; None: no such job runs."""
    return find_actor(adapter_name(job))


def end_of(job: str) -> dict[str, Any] | None:
    """`exit_code` and `reason` of a job that has ended; None: it has not, or is unknown."""
    return Store(job).read_json("end")


def wait(job: str, told: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Return when the job has ended, as `end_of`. An adapter that is restarted is waited for.

    The store tells of the end, and no call of the adapter blocks until then: each such call would
    take one of its threads, also for a caller that has gone.

    Args:
        job: its name.
        told: called with a sentence when the job begins to wait for Ray, and when it has what it
            waited for.

    Raises:
        RayError: there is no such job.
    """
    pending = _Pending(job, told or (lambda _: None))
    looks_at = 0.0
    while (end := end_of(job)) is None:
        if time.monotonic() >= looks_at:
            looks_at = time.monotonic() + _LOOK_SECONDS
            adapter = find_adapter(job)
            if adapter is None:
                if (end := end_of(job)) is not None:
                    return end
                raise no_job(job)
            pending.look(adapter)
        time.sleep(_PAUSE_SECONDS)
    return end


def tell(text: str) -> None:
    """A line on standard error."""
    print(text, file=sys.stderr, flush=True)


class _Pending:
    """Tells each change of what the job waits for."""

    def __init__(self, job: str, told: Callable[[str], None]) -> None:
        self._job, self._told = job, told
        self._said = ""
        self._answer: Any = None
        self._asked = time.monotonic()

    def look(self, adapter: Any) -> None:
        """Does not block: an answer that has not come is looked for at the next call."""
        if self._answer is None:
            self._answer, self._asked = adapter.pending.remote(), time.monotonic()
        now = "Ray has not started its adapter"
        if is_there(self._answer):
            answer, self._answer = self._answer, None
            try:
                now = get(answer)
            except ActorError:
                return  # it is started anew, and is asked again
        elif time.monotonic() - self._asked < _ADAPTER_SECONDS:
            return
        if now != self._said:
            self._told(f"paceline: {self._job} waits: {now}" if now
                       else f"paceline: {self._job} has what it waited for")
        self._said = now


def no_job(job: str) -> RayError:
    """The error of a name that no job has."""
    return RayError(what=f"there is no job {job}", where="the Ray cluster",
                    why="no job of that name was submitted, or Ray's head was started anew",
                    fix="paceline submit --on ray … SCRIPT")


def _make_credentials(job: str) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="paceline-") as directory:
        subprocess.run([command() or "paceline", "place", "--credentials", directory,
                        "--make", job], check=True, capture_output=True)
        return {name: (Path(directory) / name).read_bytes()
                for name in ("token", "ca.pem", "ca.key")}
