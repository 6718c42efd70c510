"""The program that `paceline submit --on ray` starts, and each command with `--on ray/JOB`."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from paceline.integrations.ray.calls import ActorError, ask, first_line
from paceline.integrations.ray.commands import Piece
from paceline.integrations.ray.host import Ran
from paceline.integrations.ray.show import show, show_all
from paceline.integrations.ray.spec import GRACE_SECONDS, JobSpec
from paceline.integrations.ray.submit import (
    RayError,
    connect,
    end_of,
    find_adapter,
    no_job,
    submit,
    tell,
    wait,
)

# How long the master may take to say that it stops the job, and the adapter to answer at all.
_STOP_ANSWER_SECONDS = 20.0
_ANSWER_SECONDS = 90.0
_PAUSE_SECONDS = 0.5
_USAGE = 2


def main(arguments: list[str]) -> int:
    """`submit` reads the job from standard input; `run JOB WORDS…` is `paceline WORDS` there."""
    try:
        if arguments[0] == "submit":
            return _submit(json.load(sys.stdin))
        return _run(arguments[1], arguments[2:])
    except ActorError as error:
        problem = RayError(what="an actor of the job does not answer", where="the Ray cluster",
                           why=first_line(error),
                           fix="ray status   shows the cluster; try again in some seconds")
    except RayError as error:
        problem = error
    print(f"error[{problem.code}]: {problem}", file=sys.stderr)
    return problem.exit_code


def _submit(asked: dict[str, Any]) -> int:
    spec = JobSpec(
        name=asked["name"], nodes_min=asked["nodes_min"], nodes_max=asked["nodes_max"],
        spares=asked["spares"], nproc_per_node=asked["nproc_per_node"],
        resources=_resources(asked), environment=asked["environment"], target=asked["target"],
        is_module=asked["is_module"], args=tuple(asked["args"]),
        run_flags=tuple(asked["run_flags"]))
    if asked["only_prints"]:
        print(json.dumps(json.loads(spec.to_json()), indent=2))
        return 0
    connect(asked["ray_address"], asked["working_dir"])
    if not asked["working_dir"] and not asked["is_module"]:
        spec = JobSpec.from_json(json.dumps(
            json.loads(spec.to_json()) | {"target": os.path.abspath(spec.target)}))
    submit(spec)
    print(f"job {spec.name} was submitted to Ray; paceline status --on ray/{spec.name}")
    return 0


def _resources(asked: dict[str, Any]) -> dict[str, float]:
    resources: dict[str, float] = {"CPU": float(asked["cpus"] or 1)}
    if asked["gpus"]:
        resources["GPU"] = asked["gpus"]
    if asked["memory"]:
        resources["memory"] = _bytes(asked["memory"])
    return resources


def _bytes(text: str) -> float:
    units = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
             "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
    for unit, size in units.items():
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * size
    return float(text)


def _run(job: str, words: list[str]) -> int:
    connect()
    adapter = find_adapter(job)
    end = end_of(job)
    # Other goals and a timeout are the master's to judge.
    if words in (["wait"], ["wait", "--for", "finished"], ["wait", "--for=finished"]):
        end = wait(job, tell)
        print(f"the job has ended with exit code {end['exit_code']}: {end['reason']}",
              file=sys.stderr)
        return end["exit_code"]
    if end is not None:
        raise _has_ended(job, end)
    if adapter is None:
        raise no_job(job)
    if words[0] == "stop" and "--dry-run" not in words:
        return _stop(job, adapter, words)
    if words[0] == "attach":
        return _attach(job, adapter, words)
    hosts = ask(adapter, "nodes", within=_ANSWER_SECONDS) if words[0] == "logs" else [
        ask(adapter, "master", within=_ANSWER_SECONDS)]
    hosts = [host for host in hosts if host is not None]
    if not hosts:
        if (end := end_of(job)) is not None:
            raise _has_ended(job, end)  # since this command has begun
        raise _no_master(job, adapter)
    return show_all(hosts, words)


def _has_ended(job: str, end: dict[str, Any]) -> RayError:
    return RayError(what="the job has ended", where=f"ray/{job}",
                    why=f"exit code {end['exit_code']}: {end['reason']}",
                    fix=f"its logs and journal are in /tmp/paceline-{job}-*/run on its hosts, its "
                        "newest step in the directory of checkpoints, if it saved one")


def _no_master(job: str, adapter: Any) -> RayError:
    status = ask(adapter, "status", within=_ANSWER_SECONDS)
    return RayError(what="the job's master does not run yet", where=f"ray/{job}",
                    why=status["problem"] or status["master"] or "Ray starts its actor",
                    fix="ray status   shows what Ray waits for")


def _attach(job: str, adapter: Any, words: list[str]) -> int:
    """Show the master's terminal until the job ends, also if the next master goes on with it."""
    master = ask(adapter, "master", within=_ANSWER_SECONDS)
    if master is None:
        raise _no_master(job, adapter)
    while True:
        try:
            return show_all([master], words)
        except ActorError:
            print("paceline: the job's master is gone; its end or the next master is waited for",
                  file=sys.stderr, flush=True)
        while (followed := _follows(job, master)) is None:
            time.sleep(_PAUSE_SECONDS)
        if isinstance(followed, int):
            return followed
        master = followed


def _follows(job: str, lost: Any) -> Any:
    """The exit code of the job, or its next master; None: neither is there yet.

    On the next master's host a command finds no running job before that master speaks.
    """
    if (end := end_of(job)) is not None:
        print(f"Ended: {end['reason']}", file=sys.stderr)
        return end["exit_code"]
    adapter = find_adapter(job)
    if adapter is None:
        # It leaves when it has written the end.
        if end_of(job) is None:
            raise no_job(job)
        return None
    try:
        status = ask(adapter, "status", within=_ANSWER_SECONDS)
        master = ask(adapter, "master", within=_ANSWER_SECONDS)
    except ActorError:
        return None  # it has just left
    if status["heard_term"] != status["term"]:
        return None
    return None if master is None or master._actor_id == lost._actor_id else master


def _show_ran(ran: Ran) -> None:
    show(Piece(ran.out, ran.err, ran.exit_code))


def _stop(job: str, adapter: Any, words: list[str]) -> int:
    """The master stops the job. The adapter does it if the master cannot.

    The adapter hears of it in any case. Without that it would start the next master, because a
    master that did not answer and is ended by a signal looks like one that its platform took away.
    """
    ran: Ran | None = None
    why = "no master runs yet"
    master = ask(adapter, "master", within=_ANSWER_SECONDS)
    if master is not None:
        try:
            ran = ask(master, "run", words, within=_STOP_ANSWER_SECONDS)
        except ActorError as error:
            why = f"its master does not answer ({first_line(error)})"
    if ran is not None and ran.exit_code == _USAGE:
        _show_ran(ran)
        return ran.exit_code
    is_told = ran is not None and ran.exit_code == 0
    try:
        ask(adapter, "stop", "`paceline stop` was typed", is_master_told=is_told,
            within=_ANSWER_SECONDS)
    except ActorError as error:
        raise RayError(what="the job was not stopped", where=f"ray/{job}",
                       why=f"its adapter does not answer: {first_line(error)}",
                       fix="ray status   shows the cluster; try again in some seconds") from error
    if is_told and ran is not None:
        _show_ran(ran)
        return 0
    if ran is not None:
        why = "its master did not take the request"
    print(f"stopping ray/{job}: {why}, so its adapter ends the job within {GRACE_SECONDS} s\n"
          f"next: paceline wait --on ray/{job}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
