"""The starter's loop: reads agents' messages, reports ranks' exits.

One thread, woken by sockets and pidfds, without polling.
"""

import json
import os
import selectors
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from paceline._base.processes import has_gone, start_time
from paceline._native import SlotBook
from paceline._starter import spawn
from paceline._starter.spawn import Child, Files, Request, SpawnError
from paceline._starter.wire import PROTOCOL, Connection, Message, ProtocolError

_CONNECTIONS_MAX = 64
_EXITED_MAX = 128  # exits that are remembered for a node
_LEFT_MAX = 64  # nodes without an agent or ranks; an agent that comes back asks for their exits
_FIRST_AGENT_SECONDS = 60.0
_LONGEST_WAIT_SECONDS = 3600.0  # epoll takes at most 24 days, and a warm time may be centuries
_DYING_SECONDS = 10.0  # for a killed process of a former starter, which frees its memory
_MILLISECONDS_MAX = 2**53


@dataclass(frozen=True, kw_only=True)
class Warmth:
    """How warm this interpreter is: `Warmth(imports_ms=3100, failure=None, started_with={}, …)`."""

    imports_ms: int
    failure: str | None
    started_with: dict[str, str]
    base_path: tuple[str, ...]


@dataclass(kw_only=True)
class Process:
    """One rank, from its fork to its exit."""

    request: Request
    book: SlotBook
    pid: int
    start_time: int
    how: str
    pidfd: int
    wait_status: int | None = None
    maxrss_kib: int = 0

    def row(self) -> dict[str, object]:
        return {
            "pid": self.pid,
            "start_time": self.start_time,
            "generation": self.request.generation,
            "rank": self.request.rank,
            "local_rank": self.request.local_rank,
            "slot": self.request.slot,
        }


@dataclass(kw_only=True)
class Node:
    """The state of one node of one job."""

    connection: Connection | None = None
    running: dict[int, Process] = field(default_factory=dict[int, Process])  # by slot
    exited: deque[Process] = field(default_factory=lambda: deque[Process](maxlen=_EXITED_MAX))
    books: dict[str, SlotBook] = field(default_factory=dict[str, SlotBook])
    orphan_ms: int | None = None  # time until its ranks are killed without an agent; None: never
    alone_since: float | None = None  # when its connection closed, if there is no new one

    @property
    def ends_at(self) -> float | None:
        """When its ranks are killed. None: they have an agent, or may live on."""
        if self.alone_since is None or self.orphan_ms is None or not self.running:
            return None
        return self.alone_since + self.orphan_ms / 1000


class Server:
    """Serves agents: `Server(listener, warmth, keep_warm=0.0).serve(lambda: False)`."""

    def __init__(self, listener: socket.socket, warmth: Warmth, *, keep_warm: float) -> None:
        self._listener = listener
        self._warmth = warmth
        self._keep_warm = keep_warm
        self._selector = selectors.DefaultSelector()
        self._connections: set[Connection] = set()
        self._nodes: dict[tuple[str, str], Node] = {}
        self._idle_since = time.monotonic()
        self._had_agent = False
        self._child: Child | None = None
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)

    def serve(self, is_stale: Callable[[], bool]) -> Child | None:
        """Serve until nobody needs the starter (None). In a forked child: returns the child's work.

        `is_stale` is called when a starter that is kept warm becomes idle; True ends the starter.
        """
        was_idle = True
        while True:
            timeout = self._seconds_left()
            if timeout is not None and (timeout <= 0 or (not was_idle and is_stale())):
                return None
            was_idle = timeout is not None
            for key, events in self._selector.select(self._until_orphans(timeout)):
                target: object = key.data
                if isinstance(target, Process):
                    self._reap(target)
                elif isinstance(target, Connection):
                    self._talk(target, events)
                else:
                    self._accept()
                if self._child is not None:
                    return self._child
            self._end_orphans()

    @property
    def is_expired(self) -> bool:
        """Whether the starter has no users and its warm time is over."""
        timeout = self._seconds_left()
        return timeout is not None and timeout <= 0

    def forget(self) -> None:
        """In a forked child: close the starter's descriptors."""
        self._selector.close()
        self._listener.close()
        for connection in self._connections:
            connection.socket.close()
        for node in self._nodes.values():
            for process in node.running.values():
                os.close(process.pidfd)

    def _seconds_left(self) -> float | None:
        if self._connections or any(node.running for node in self._nodes.values()):
            return None
        patience = (
            self._keep_warm if self._had_agent else max(_FIRST_AGENT_SECONDS, self._keep_warm)
        )
        return self._idle_since + patience - time.monotonic()

    def _until_orphans(self, timeout: float | None) -> float | None:
        ends = [node.ends_at for node in self._nodes.values()]
        waits = [end - time.monotonic() for end in ends if end is not None]
        if timeout is not None:
            waits.append(timeout)
        return min(max(0.0, min(waits)), _LONGEST_WAIT_SECONDS) if waits else None

    def _end_orphans(self) -> None:
        """Kill the ranks of nodes whose agent died and was not replaced in time."""
        now = time.monotonic()
        for (job, name), node in self._nodes.items():
            if node.ends_at is None or node.ends_at > now:
                continue
            if any(_has_agent(process.request.environment) for process in node.running.values()):
                # The agent lives but uses another starter, as after a start from a fresh image.
                node.alone_since = now
                continue
            pids = sorted(process.pid for process in node.running.values())
            print(f"starter_orphans job={job} node={name} killed={pids}", flush=True)
            node.alone_since = None
            for pid in pids:
                os.killpg(pid, signal.SIGKILL)  # the leader is an unreaped child of this process

    def _accept(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except OSError:
            return
        connection = Connection(peer)
        if connection.peer_uid() != os.getuid() or len(self._connections) >= _CONNECTIONS_MAX:
            peer.close()
            return
        self._had_agent = True
        self._connections.add(connection)
        self._selector.register(peer, selectors.EVENT_READ, connection)

    def _talk(self, connection: Connection, events: int) -> None:
        if connection not in self._connections:
            return
        if events & selectors.EVENT_WRITE and not connection.flush():
            self._drop(connection)
            return
        try:
            messages = connection.receive() if events & selectors.EVENT_READ else []
            if messages is None:
                self._drop(connection)
                return
            for message in messages:
                self._handle(connection, message)
                if self._child is not None or connection not in self._connections:
                    return
        except ProtocolError as error:
            connection.send("error", why=str(error))
            self._drop(connection)
            return
        self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        if connection in self._connections:
            events = selectors.EVENT_READ
            if connection.wants_to_write:
                events |= selectors.EVENT_WRITE
            self._selector.modify(connection.socket, events, connection)

    def _send(self, connection: Connection, kind: str, **fields: object) -> None:
        if connection.send(kind, **fields):
            self._watch(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self._selector.unregister(connection.socket)
        connection.socket.close()
        node = self._nodes.get((connection.job, connection.node))
        if node is not None and node.connection is connection:
            node.connection = None
            node.alone_since = time.monotonic()
        self._idle_since = time.monotonic()

    def _handle(self, connection: Connection, message: Message) -> None:
        if message.type == "hello":
            self._hello(connection, message)
            return
        node = self._nodes.get((connection.job, connection.node))
        if node is None or node.connection is not connection:
            raise ProtocolError("the first message is not hello")
        if message.type == "spawn":
            self._spawn(connection, node, Request.parse(message))
        elif message.type == "list":
            processes = [*node.running.values(), *node.exited]
            rows = [
                process.row()
                | {
                    "how": process.how,
                    "running": process.wait_status is None,
                    "wait_status": process.wait_status,
                    "stopped_by": _stop_signal(process.pid) if process.wait_status is None else 0,
                }
                for process in processes
            ]
            self._send(connection, "children", children=rows)
        elif message.type == "bye":
            node.exited.clear()
            self._drop(connection)
            if not node.running:
                del self._nodes[(connection.job, connection.node)]
        else:
            raise ProtocolError(f"unknown message type '{message.type[:64]}'")

    def _hello(self, connection: Connection, message: Message) -> None:
        if message.integer("protocol") != PROTOCOL:
            raise ProtocolError(f"this starter speaks protocol {PROTOCOL}")
        if connection.job:
            raise ProtocolError("a second hello")
        connection.job, connection.node = message.text("job"), message.text("node")
        if not connection.job or not connection.node:
            raise ProtocolError("an empty name")
        node = self._nodes.setdefault((connection.job, connection.node), Node())
        former, node.connection = node.connection, connection
        self._forget_left()
        node.alone_since = None
        node.orphan_ms = message.integer_or_none("orphan_after_ms", high=_MILLISECONDS_MAX)
        if former is not None:
            former.send("error", why="a newer connection of the same node took over")
            self._drop(former)
        failure = self._warmth.failure
        self._send(
            connection,
            "ready",
            protocol=PROTOCOL,
            pid=os.getpid(),
            start_time=start_time(os.getpid()),
            warm=failure is None,
            why_cold=failure,
            imports_ms=self._warmth.imports_ms,
            modules=len(sys.modules),
            python=sys.version.split()[0],
        )

    def _forget_left(self) -> None:
        """Forget all but the last nodes whose agent died and whose ranks have ended."""
        left = [(node.alone_since or 0.0, key) for key, node in self._nodes.items()
                if node.connection is None and not node.running]
        for _, key in sorted(left)[:-_LEFT_MAX]:
            del self._nodes[key]

    def _spawn(self, connection: Connection, node: Node, request: Request) -> None:
        began = time.monotonic_ns()
        try:
            process, attempt, why = self._start(connection, node, request)
        except (SpawnError, OSError, RuntimeError) as error:
            self._send(connection, "spawn_failed", id=request.id, why=str(error))
            return
        if process is None:
            return  # this is the child
        self._send(
            connection,
            "spawned",
            id=request.id,
            pid=process.pid,
            start_time=process.start_time,
            attempt=attempt,
            how=process.how,
            why_cold=why if process.how == "cold" else None,
            took_us=(time.monotonic_ns() - began) // 1000,
        )

    def _start(
        self, connection: Connection, node: Node, request: Request
    ) -> tuple[Process | None, int, str | None]:
        book = node.books.get(request.page)
        if book is None:
            book = SlotBook.open(request.page, connection.job, connection.node)
            node.books = {request.page: book}
        self._check_vacant(node, book, request.slot)
        why = self._warmth.failure or spawn.why_cold(request, self._warmth.started_with)
        how = "exec" if request.entry is None else "cold" if why else "fork"
        birth = request.birth() if how == "fork" else None
        files = Files(request)
        try:
            attempt = book.begin(
                request.slot, request.generation, request.rank, request.local_rank, spawn.HOW[how]
            )
            try:
                pid = os.fork() if how == "fork" else spawn.run_program(request, files)
            except BaseException:
                book.vacate(request.slot)
                raise
            if pid == 0 and birth is not None:
                self._child = Child(
                    request=request, birth=birth, files=files, base_path=self._warmth.base_path
                )
                return None, attempt, None
        finally:
            if self._child is None:
                files.close()
        return self._adopt(node, book, request, pid, how), attempt, why

    def _adopt(self, node: Node, book: SlotBook, request: Request, pid: int, how: str) -> Process:
        # The child calls setpgid, too. Here it makes sure that the group exists before anybody is
        # told. It fails if the child has already started another program, or ended.
        with suppress(OSError):
            os.setpgid(pid, pid)
        try:
            process = self._watch_child(request, book, pid, how)
        except BaseException:
            # Nobody would notice its end, so it must not run. It is not reaped yet, so neither its
            # number nor its group's can have been reused.
            os.kill(pid, signal.SIGKILL)
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            book.vacate(request.slot)
            raise
        book.running(request.slot, pid, process.start_time)
        node.running[request.slot] = process
        return process

    def _watch_child(self, request: Request, book: SlotBook, pid: int, how: str) -> Process:
        pidfd = os.pidfd_open(pid)
        try:
            began = start_time(pid)
            if began == 0:
                raise SpawnError(f"/proc/{pid}/stat cannot be read")
            process = Process(
                request=request, book=book, pid=pid, start_time=began, how=how, pidfd=pidfd
            )
            self._selector.register(pidfd, selectors.EVENT_READ, process)
        except BaseException:
            os.close(pidfd)
            raise
        return process

    def _check_vacant(self, node: Node, book: SlotBook, slot: int) -> None:
        occupant = node.running.get(slot)
        if occupant is not None and has_ended(occupant.pid):
            # The rank has ended, but its pidfd event has not come yet.
            self._reap(occupant)
        elif occupant is not None:
            raise SpawnError(f"slot {slot} is in use by process {occupant.pid}")
        pid, began = book.occupant(slot)
        if pid and not has_gone(pid, began, _DYING_SECONDS):
            # A rank of a former starter. This process cannot reap it, and it may still train.
            raise SpawnError(f"slot {slot} is in use by process {pid} of a former starter")

    def _reap(self, process: Process) -> None:
        if process.wait_status is not None:
            return
        self._selector.unregister(process.pidfd)
        os.close(process.pidfd)
        state = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        if state is None or state.si_code != os.CLD_EXITED or state.si_status != 0:
            # The leader is still a zombie, so the group's number cannot have been reused.
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
        _, process.wait_status, usage = os.wait4(process.pid, 0)
        process.maxrss_kib = usage.ru_maxrss
        slot = process.request.slot
        process.book.exited(slot, process.wait_status, process.maxrss_kib)
        for node in self._nodes.values():
            if node.running.get(slot) is not process:
                continue
            del node.running[slot]
            node.exited.append(process)
            if node.connection is not None:
                self._send(
                    node.connection,
                    "exited",
                    **process.row(),
                    wait_status=process.wait_status,
                    maxrss_kib=process.maxrss_kib,
                )
        self._idle_since = time.monotonic()


def has_ended(pid: int) -> bool:
    """Whether that child of this process has ended and is not reaped yet."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _stop_signal(pid: int) -> int:
    """The signal that stopped this child; 0 if it is not stopped. Only a parent can ask this."""
    try:
        state = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return 0
    return 0 if state is None else state.si_status


def _has_agent(environment: dict[str, str]) -> bool:
    """Whether the agent of the rank with that environment lives, by its file agent.json."""
    node = environment.get("PACELINE_NODE", "")
    folder = Path(environment.get("PACELINE_RUN_DIR", "")) / "nodes" / node
    try:
        text = (folder / "agent.json").read_text(encoding="utf-8")
        agent: object = json.loads(text)
    except (OSError, ValueError):
        return False
    if not isinstance(agent, dict):
        return False
    known = cast("dict[str, object]", agent)
    pid, began = known.get("pid"), known.get("start_time")
    if not isinstance(pid, int) or not isinstance(began, int) or pid <= 0:
        return False
    return not has_gone(pid, began, 0)
