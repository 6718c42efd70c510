"""The actor that acts for Ray towards the master: it starts what the master wishes for.

It is detached and restarted by Ray, and finds the job's other actors again by their names. What it
must not forget is in the head's store (`store.py`): the job's specification and credentials, the
term of its master, the master's memo, the highest incarnation of each node, and the job's end.
"""

from __future__ import annotations

import os
import queue
import shutil
import threading
import time
import traceback
from collections.abc import Collection
from typing import Any

from paceline.__main__ import command
from paceline.integrations.ray.calls import (
    away_from,
    draining,
    find_actor,
    get,
    is_there,
    kill,
    ray_node,
    start_actor,
)
from paceline.integrations.ray.decide import (
    NodeId,
    Seen,
    State,
    Wish,
    decide,
    is_final,
    needs_text,
    notices,
    pending_text,
)
from paceline.integrations.ray.directory import make_directory, write_secrets
from paceline.integrations.ray.host import Master, Node, Outcome
from paceline.integrations.ray.line import Line
from paceline.integrations.ray.placed import Placed, Unfit
from paceline.integrations.ray.spec import GRACE_SECONDS, JobSpec
from paceline.integrations.ray.store import Store

_TURN_SECONDS = 0.2
# How often an adapter looks whether a newer one is in charge, beside each time before it starts an
# actor.
_CHARGE_SECONDS = 1.0
# How often Ray is asked which raylets it drains.
_DRAIN_SECONDS = 1.0
# How long nodes have to end by themselves when the job is over.
_END_SECONDS = 10.0
# Ray starts an actor within this time if there is room for it.
_PLACED_WITHIN_SECONDS = 10
# No actor is started for so long on a raylet where one could not be made.
_UNFIT_SECONDS = 600.0
# The adapter gives the job up after so many masters in a row that ended within _SHORT_SECONDS.
_SHORT_MASTERS_MAX = 5
_SHORT_SECONDS = 60.0
_STOPPED_CODE = 143


def adapter_name(job: str) -> str:
    return f"{job}-adapter"


def master_name(job: str, term: int) -> str:
    return f"{job}-master-{term}"


def node_name(job: str, node: NodeId) -> str:
    return f"{job}-{node.name}-{node.incarnation}"


class Adapter:
    """Created by `submit.py`, once a job."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._store = Store(job)
        self._spec = JobSpec.from_json(self._store.read("spec") or b"")
        self._credentials = {name: self._store.read(f"credentials/{name}") or b""
                             for name in ("token", "ca.pem", "ca.key")}
        # An adapter whose raylet was taken for dead may live on. The newest one is in charge.
        self._token = os.urandom(16)
        self._store.write("adapter", self._token)
        self._looks_at = time.monotonic() + _CHARGE_SECONDS
        self._directory = make_directory(job, "adapter")
        write_secrets(self._directory, self._credentials)
        self._files = {name: self._store.read(f"files/{name}") or b""
                       for name in self._store.read_json("files", [])}
        self._program = command() or "paceline"
        self._term = int(self._store.read_json("term", 0))
        self._seen = {int(index): incarnation
                      for index, incarnation in self._store.read_json("seen", {}).items()}
        self._master: Placed | None = None
        self._address = ""
        self._asked_address: Any = None
        self._line: Line | None = None
        self._wish: Wish | None = None
        self._told: dict[int, Any] = {}
        self._noticed: set[NodeId] = set()  # told to the master that runs
        self._drains_at = 0.0
        self._summary: dict[str, Any] = {}
        self._heard_term = 0  # of the master that told the summary
        self._told_end: dict[str, Any] | None = None
        self._end: dict[str, Any] | None = self._store.read_json("ended")
        # Why the job ends whatever its master does; "": nobody has asked.
        self._stop: str = self._store.read_json("stop", "")
        # Of a master that was asked to stop the job, and does not say that it does.
        self._kills_at = time.monotonic() + GRACE_SECONDS
        self._short_masters = 0
        self._nodes: dict[NodeId, Placed] = {}
        self._unfit: dict[str, tuple[float, Unfit]] = {}  # by raylet, with the time of it
        self._problem = ""
        self._messages: queue.SimpleQueue[tuple[int, dict[str, Any]]] = queue.SimpleQueue()
        self._untaken: tuple[int, dict[str, Any]] | None = None  # the head was away
        self._find_again()
        threading.Thread(target=self._run, daemon=True).start()

    # ---- what others ask ----

    def status(self) -> dict[str, Any]:
        """What is known here, as JSON: the summary of the master and the state of each actor.

        `heard_term` is that of the master that told the summary; its successor may not speak yet.
        """
        return {"term": self._term, "master": self._master_words(), "summary": self._summary,
                "heard_term": self._heard_term, "problem": self._problem, "end": self._end,
                "nodes": {node.name: self._words_of(one) for node, one in self._all_nodes()}}

    def _words_of(self, one: Placed) -> str:
        return f"{one.state.value} {one.words or self._why_waits(one)}".strip()

    def pending(self) -> str:
        """What the job waits for Ray to start, in a sentence; "": nothing."""
        waiting = [node for node, one in self._all_nodes() if self._why_waits(one)]
        return pending_text(waiting, self._spec.resources)

    def unfit(self) -> list[Unfit]:
        """The raylets on which actors of this job could not be made lately."""
        return [unfit for began, unfit in list(self._unfit.values())
                if time.monotonic() - began < _UNFIT_SECONDS]

    def stop(self, why: str, *, is_master_told: bool) -> None:
        """From now on the job ends with its master, however that ends.

        Args:
            why: the reason of the job's end, if the master gives none.
            is_master_told: False: the master did not answer, and is asked once more by a signal.

        A master that does not say within GRACE_SECONDS that the job stops is killed.
        """
        self._store.write_json("stop", why)
        self._kills_at = time.monotonic() + GRACE_SECONDS
        self._stop = why
        if not is_master_told and (master := self.master()) is not None:
            master.leave.remote()

    def ray_node(self) -> str:
        """Ray's id of the node on which this actor is."""
        return ray_node()

    def master(self) -> Any:
        """The actor of the present master, if it runs."""
        is_up = self._master is not None and self._master.state is State.RUNS
        return self._master.actor if is_up and self._master else None

    def nodes(self) -> list[Any]:
        """The actors of the nodes that run."""
        return [one.actor for _, one in self._all_nodes() if one.state is State.RUNS]

    def _all_nodes(self) -> list[tuple[NodeId, Placed]]:
        # A copy, because the loop's own thread starts nodes meanwhile.
        return sorted(self._nodes.copy().items())

    # ---- the loop ----

    def _run(self) -> None:
        while self._end is None:
            try:
                self._turn()
                self._listen()
                self._problem = ""
            except Exception:
                # Ray's head may be away for a while. The next turn tries again.
                self._problem = traceback.format_exc(limit=3)
                time.sleep(_TURN_SECONDS)
        while True:
            try:
                self._finish()
                return
            except Exception:
                self._problem = traceback.format_exc(limit=3)
                time.sleep(_CHARGE_SECONDS)

    def _listen(self) -> None:
        """Take what the master says during a turn. A message that fails is taken again."""
        patience = _TURN_SECONDS
        while True:
            if self._untaken is None:
                try:
                    self._untaken = self._messages.get(timeout=patience)
                except queue.Empty:
                    return
            self._take(*self._untaken)
            self._untaken = None
            patience = 0.0

    def _yield_to_newer(self) -> None:
        """End this process if another adapter is in charge."""
        if self._store.read("adapter") != self._token:
            shutil.rmtree(self._directory, ignore_errors=True)
            os._exit(0)
        self._looks_at = time.monotonic() + _CHARGE_SECONDS

    def _turn(self) -> None:
        if time.monotonic() >= self._looks_at:
            self._yield_to_newer()
        for one in (*self._nodes.values(), *([self._master] if self._master else [])):
            one.look()
            if one.unfit is not None and one.unfit.raylet not in self._unfit:
                self._unfit[one.unfit.raylet] = (one.began, one.unfit)
        self._look_after_master()
        if self._end is None and self._wish is not None:
            self._look_after_nodes(self._wish)

    def _look_after_master(self) -> None:
        if self._stop and (self._master is None or self._master.state is State.WAITS):
            self._keep_end(_STOPPED_CODE, self._stop)
            return
        if self._master is None:
            self._start_master()
            return
        is_silent = self._stop and self._summary.get("phase") not in ("stopping", "finished")
        if is_silent and time.monotonic() > self._kills_at:
            kill(self._master.actor)
            self._keep_end(_STOPPED_CODE, f"{self._stop}; its master did not answer: killed")
            return
        if self._master.state is State.ENDED:
            self._master_ended(self._master)
            return
        if self._asked_address is None and self._master.state is State.RUNS:
            self._asked_address = self._master.actor.address.remote()
        if self._line is None and is_there(self._asked_address):
            self._address = get(self._asked_address)
            for one in self._nodes.values():
                if one.state is not State.ENDED:
                    one.actor.point_to.remote(self._address)
            term = self._term
            self._line = Line(self._program, str(self._directory), self._address,
                              lambda message: self._messages.put((term, message)))

    def _start_master(self) -> None:
        self._yield_to_newer()
        # Raised in the store before the master is started: two masters never have one term.
        self._term += 1
        self._store.write_json("term", self._term)
        living = sum(one.state is State.RUNS for one in self._nodes.values())
        actor = start_actor(
            Master, master_name(self._job, self._term),
            self._spec, self._credentials, self._term, living,
            (self._store.read("memo") or b"").decode(),
            num_cpus=0, max_restarts=0, max_concurrency=16, scheduling_strategy="SPREAD",
            runtime_env=self._spec.runtime_env, **self._away_from(()))
        self._master, self._asked_address = Placed.of(actor), None

    def _master_ended(self, master: Placed) -> None:
        code = master.result.exit_code if master.result else None
        if code is not None and is_final(code, is_asked=self._told_end is not None):
            reason = (self._told_end or {}).get("reason") or (master.result or Outcome(0, "")).tail
            self._keep_end(code, reason)
            return
        if self._stop:
            self._keep_end(_STOPPED_CODE, self._stop)
            return
        is_short = time.monotonic() - master.began < _SHORT_SECONDS and code is not None
        self._short_masters = self._short_masters + 1 if is_short else 0
        if self._short_masters >= _SHORT_MASTERS_MAX:
            tail = master.result.tail if master.result else master.words
            self._keep_end(1, f"{self._short_masters} masters in a row ended at once: {tail}")
            return
        if self._line is not None:
            self._line.close()
        self._line, self._master, self._wish, self._told_end = None, None, None, None

    def _look_after_nodes(self, wish: Wish) -> None:
        seen = [Seen(node, one.state, one.words or self._why_waits(one))
                for node, one in self._nodes.items()]
        # A node whose actor ended while no adapter looked.
        newest = {node.index: node.incarnation for node in sorted(self._nodes)}
        seen += [Seen(NodeId(index, incarnation), State.ENDED, "lost its actor")
                 for index, incarnation in self._seen.items()
                 if newest.get(index, -1) < incarnation]
        decision = decide(wish, seen)
        for node in decision.start:
            self._start_node(node)
        for node in decision.stop:
            self._stop_node(node)
        if self._line is None:
            return
        for fact in decision.facts:
            if self._told.get(fact.node.index) != fact:
                self._told[fact.node.index] = fact
                self._line.tell(fact.line())

        self._tell_notices(self._line)

    def _tell_notices(self, line: Line) -> None:
        if time.monotonic() < self._drains_at:
            return
        self._drains_at = time.monotonic() + _DRAIN_SECONDS
        places = {node: one.place for node, one in self._nodes.items()
                  if one.state is State.RUNS and one.place}
        for notice in notices(places, draining(), time.time()):
            if notice.node not in self._noticed:
                self._noticed.add(notice.node)
                line.tell(notice.line())

    def _why_waits(self, one: Placed) -> str:
        if one.state is not State.WAITS:
            return ""
        waited = int(one.age())
        if waited < _PLACED_WITHIN_SECONDS:
            return ""
        return f"Ray has had no room for {waited} s; it needs {needs_text(self._spec.resources)}"

    def _start_node(self, node: NodeId) -> None:
        self._yield_to_newer()
        self._seen[node.index] = node.incarnation
        self._store.write_json("seen", self._seen)
        resources = dict(self._spec.resources)
        actor = start_actor(
            Node, node_name(self._job, node),
            self._spec, self._credentials_of_nodes(), node, self._address, self._files,
            num_cpus=resources.pop("CPU", 1), num_gpus=resources.pop("GPU", 0),
            memory=int(resources.pop("memory", 0)) or None, resources=resources,
            max_restarts=0, max_concurrency=16, scheduling_strategy="SPREAD",
            runtime_env=self._spec.runtime_env,
            **self._away_from(self._wish.excluded if self._wish else ()))
        self._nodes[node] = Placed.of(actor)

    def _away_from(self, hosts: Collection[str]) -> dict[str, Any]:
        return away_from(hosts, [unfit.raylet for unfit in self.unfit() if unfit.raylet])

    def _credentials_of_nodes(self) -> dict[str, bytes]:
        return {name: value for name, value in self._credentials.items() if name != "ca.key"}

    def _stop_node(self, node: NodeId) -> None:
        one = self._nodes[node]
        if one.state is State.WAITS:
            kill(one.actor)
            return
        if not one.words:
            one.words, one.began = "leaves: the master does not wish for it", time.monotonic()
            one.actor.leave.remote()
        elif one.age() > GRACE_SECONDS:
            kill(one.actor)

    # ---- what the master says ----

    def _take(self, term: int, message: dict[str, Any]) -> None:
        if term != self._term:
            return
        kind, body = next(iter(message.items()))
        if kind == "opened":
            self._told, self._noticed = {}, set()  # a new stream knows nothing
        elif kind == "wish":
            wish = Wish.of(body)
            if self._wish is None or wish.seq >= self._wish.seq:
                self._wish = wish
        elif kind == "summary":
            if body["memo"] != self._summary.get("memo"):
                self._store.write("memo", body["memo"].encode())
            self._summary, self._heard_term = body, term
        elif kind == "ended":
            self._told_end = body
            if is_final(body["exit_code"], is_asked=True):
                self._keep_end(body["exit_code"], body["reason"])
            if self._line is not None:
                self._line.tell({"kept": {}})

    # ---- the end ----

    def _keep_end(self, exit_code: int, reason: str) -> None:
        end = {"exit_code": exit_code, "reason": reason}
        self._store.write_json("ended", end)
        self._end = end

    def _finish(self) -> None:
        """Let the nodes end, publish the end, and remove the job's actors, this one last."""
        until = time.monotonic() + _END_SECONDS
        if self._stop and self._told_end is None:
            # The master did not tell its nodes to end.
            for one in self._nodes.values():
                if one.state is State.RUNS:
                    one.actor.leave.remote()
        living = [one for one in (*self._nodes.values(), self._master) if one is not None]
        while living and time.monotonic() < until:
            for one in living:
                one.look()
            self._keep_report(living)
            living = [one for one in living if one.state is not State.ENDED]
            time.sleep(_TURN_SECONDS)
        for one in living:
            kill(one.actor)
        self._store.forget("credentials/")
        self._store.forget("files/")
        self._store.write_json("end", self._end)
        if self._line is not None:
            self._line.close()
        shutil.rmtree(self._directory, ignore_errors=True)
        kill(find_actor(adapter_name(self._job)))

    def _keep_report(self, ended: list[Placed]) -> None:
        for one in ended:
            if one.result is not None and one.result.report:
                self._store.write("report", one.result.report.encode())

    # ---- after this actor was restarted ----

    def _find_again(self) -> None:
        if self._term == 0:
            return
        master = find_actor(master_name(self._job, self._term))
        self._master = None if master is None else Placed.of(master)
        for index, highest in self._seen.items():
            for incarnation in range(max(0, highest - 1), highest + 1):
                node = NodeId(index, incarnation)
                actor = find_actor(node_name(self._job, node))
                if actor is not None:
                    self._nodes[node] = Placed.of(actor)

    def _master_words(self) -> str:
        if self._master is None or self._master.state is State.WAITS:
            return "Ray starts its actor"
        return f"{self._master.state.value} {self._master.words}".strip()
