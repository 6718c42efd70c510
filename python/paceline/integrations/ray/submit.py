"""Start a job on a Ray cluster, and find it again."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
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
    away_from,
    find_actor,
    get,
    head_address,
    is_there,
    is_unfit,
    ray,
    start_actor,
)
from paceline.integrations.ray.head import Head, say_seconds
from paceline.integrations.ray.placed import Unfit
from paceline.integrations.ray.spec import JobSpec
from paceline.integrations.ray.store import Store

_CONNECT_SECONDS = 5.0
# An adapter needs no resources, so it is started within this time unless Ray is in trouble.
_ADAPTER_SECONDS = 20.0
# Between two looks at the store, and at the adapter.
_PAUSE_SECONDS = 0.5
# How long Ray waits for the head's word on why an actor is gone, before a call that its process did
# not answer fails. The reason is only told; a second of it is a second in which nothing is healed.
_DEATH_VARIABLE = "RAY_timeout_ms_task_wait_for_death_info"
_DEATH_MS = "50"
_LOOK_SECONDS = 2.0
# A head that is silent for less is no news.
_AWAY_SECONDS = 4.0


class RayError(PacelineError):
    """Ray, or a job on it, cannot do what was asked; in four parts."""

    exit_code = 3
    """Of the command that ends with this error."""
    code = "PL-E046"


class RequestError(RayError):
    """What was asked for is not possible; Ray itself is well."""

    exit_code = 2


class HeadError(RayError):
    """The head of the Ray cluster does not answer, and Ray's own wait for it is over."""

    code = "PL-E330"


class UnfitError(RayError):
    """Ray cannot make paceline's actors where it wants to."""

    code = "PL-E331"


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
                       why=" ".join(str(error).split()),
                       fix=_fix_of(error)) from error


def _fix_of(error: Exception) -> str:
    if "ersion mismatch" in str(error):
        return "run this command in a Python of the cluster's version, with the cluster's ray"
    return "ray start --head   starts one; --ray HOST:PORT names it"


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
    _start_adapter(spec.name)


def _start_adapter(job: str) -> None:
    """Return when the adapter works, or when Ray takes long to start it: the job then waits.

    Raises:
        UnfitError: Ray could not make it on any raylet where it tried.
    """
    refused: list[Unfit] = []
    while True:
        adapter = start_actor(
            Adapter, adapter_name(job), job, num_cpus=0, max_restarts=-1, max_concurrency=64,
            runtime_env={"env_vars": {_DEATH_VARIABLE: _DEATH_MS}},
            **away_from((), [unfit.raylet for unfit in refused]))
        ready, _ = ray.wait([adapter.__ray_ready__.remote()], timeout=_ADAPTER_SECONDS)
        if not ready:
            return
        try:
            get(ready[0])
            return
        except ActorError as error:
            unfit = Unfit.of(adapter, error)
            if not is_unfit(error) or not unfit.raylet or unfit in refused:
                raise
            refused.append(unfit)
        if len(refused) == sum(node["Alive"] for node in ray.nodes()):
            raise refusal(refused[0])


def refusal(unfit: Unfit) -> UnfitError:
    """The error of a raylet that cannot run paceline."""
    return UnfitError(what="Ray cannot start a node of the job there", where=unfit.where(),
                      why=unfit.why, fix=unfit.fix())


def find_adapter(job: str) -> Any:
    """The actor of the job's adapter; None: no such job runs."""
    return find_actor(adapter_name(job))


def end_of(job: str) -> dict[str, Any] | None:
    """`exit_code` and `reason` of a job that has ended; None: it has not, or is unknown."""
    return Store(job).read_json("end")


def wait(job: str, told: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Return when the job has ended, as `end_of`. An adapter that is restarted is waited for.

    Args:
        job: its name.
        told: called with a sentence when the job begins to wait for Ray, when it has what it
            waited for, when a raylet cannot run its nodes, and when Ray's head does not answer.

    Raises:
        RayError: there is no such job.
        HeadError: Ray's head is away for good.
    """
    tells = told or (lambda _: None)
    found: queue.SimpleQueue[dict[str, Any] | Exception] = queue.SimpleQueue()
    # Ray's calls block while its head is away, and Ray then ends this process without a word.
    threading.Thread(target=_look_for_end, args=(job, tells, found), daemon=True).start()
    head = HeadWatch(job, Head(head_address()), tells)
    while True:
        try:
            end = found.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            head.look()
            continue
        if isinstance(end, Exception):
            raise end
        return end


def _look_for_end(job: str, told: Callable[[str], None],
                  found: queue.SimpleQueue[dict[str, Any] | Exception]) -> None:
    try:
        found.put(_end_when_there(job, told))
    except Exception as error:
        found.put(error)


def _end_when_there(job: str, told: Callable[[str], None]) -> dict[str, Any]:
    """The store tells of the end, and no call of the adapter blocks until then: each such call
    would take one of its threads, also for a caller that has gone.
    """
    pending = _Pending(job, told)
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


class HeadWatch:
    """Tells when Ray's head does not answer, and when it answers again."""

    def __init__(self, job: str, head: Head, told: Callable[[str], None]) -> None:
        self._job, self._head, self._told = job, head, told
        self._is_away = False

    def look(self) -> None:
        """Ask the head. May take two seconds.

        Raises:
            HeadError: Ray is about to end this process.
        """
        away = self._head.away_seconds()
        if away > say_seconds():
            raise HeadError(
                what=f"the job {self._job} is lost, because Ray's head does not come back",
                where=f"Ray's head at {self._head.address}",
                why=f"it has not answered for {away:.0f} s, and Ray now ends the raylets with "
                    "all that runs on them",
                fix="start the cluster and submit the job again: it goes on from the newest step "
                    "in storage")
        if away > _AWAY_SECONDS and not self._is_away:
            self._is_away = True
            self._told(f"paceline: Ray's head at {self._head.address} has not answered for "
                       f"{away:.0f} s; {self._job} trains on meanwhile")
        elif away == 0.0 and self._is_away:
            self._is_away = False
            self._told(f"paceline: Ray's head at {self._head.address} answers again")


def tell(text: str) -> None:
    """A line on standard error."""
    print(text, file=sys.stderr, flush=True)


class _Pending:
    """Tells each change of what the job waits for, and each raylet that cannot run its nodes."""

    def __init__(self, job: str, told: Callable[[str], None]) -> None:
        self._job, self._told = job, told
        self._said = ""
        self._refused: set[Unfit] = set()
        self._answers: list[Any] = []
        self._asked = time.monotonic()

    def look(self, adapter: Any) -> None:
        """Does not block: an answer that has not come is looked for at the next call."""
        if not self._answers:
            self._answers = [adapter.pending.remote(), adapter.unfit.remote()]
            self._asked = time.monotonic()
        now = "Ray has not started its adapter"
        if all(is_there(answer) for answer in self._answers):
            answers, self._answers = self._answers, []
            try:
                now, refused = (get(answer) for answer in answers)
            except ActorError:
                return  # it is started anew, and is asked again
            for unfit in refused:
                if unfit not in self._refused:
                    self._refused.add(unfit)
                    self._told(f"warning[{UnfitError.code}]: {refusal(unfit)}")
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
