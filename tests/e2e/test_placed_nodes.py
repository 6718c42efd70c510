"""Nodes that a platform starts: a master without nodes of its own, credentials in files, and nodes
whose next incarnation takes their place. The platform is this test."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from free_ports import free_port
from job import PATIENT, Job, JsonDict, eventually, lives

EXIT_FENCED = 92
ENDLESS = 100_000  # steps; the fixture stops the job
LEAVE_BEFORE_S = 2  # a node leaves so long before its platform ends it


class Placed:
    """One job; `node` starts a node in a directory of its own, as a container would."""

    def __init__(self, directory: Path, lost_after: str) -> None:
        self.directory = directory
        self.timers = {**PATIENT, "PACELINE_TIMERS_LOST_AFTER": lost_after}
        self.endpoint = f"127.0.0.1:{free_port()}"
        self.make_credentials()
        self.shape = ["--nnodes", "1:2", "--grow", "now"]
        self.master = self.master_of(1, survivors=0)

    def master_of(self, term: int, survivors: int) -> Job:
        env = {**self.timers, "PACELINE_MASTER_TERM": str(term),
               "PACELINE_MASTER_SURVIVORS": str(survivors)}
        return Job(self.of(f"master-{term}"), env=env).start(
            [*self.shape, "--local-nodes", "0", "--rdzv-endpoint", self.endpoint,
             "--credentials", str(self.directory / "for-master")], [])

    def lose_master(self) -> None:
        """Its host is gone: all of its processes, and its run directory."""
        master = self.master
        assert master.launcher is not None
        pid = eventually(lambda: master.card.get("master", {}).get("pid"), "the master is noted")
        master.launcher.kill()
        master.launcher.wait()
        os.kill(pid, signal.SIGKILL)
        # A process that is killed may still finish the call that it is in, and make a file.
        eventually(lambda: not lives(pid), "the master has ended")
        shutil.rmtree(master.run_dir)

    def of(self, name: str) -> Path:
        path = self.directory / name
        path.mkdir(exist_ok=name.startswith("master"))
        return path

    def make_credentials(self) -> None:
        master, node = self.of("for-master"), self.of("for-node")
        key = master / "ca.key"
        for words in (
                f"openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out {key}",
                f"openssl req -x509 -new -key {key} -days 1 -subj /CN=job -out {master}/ca.pem "
                "-addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign"):
            subprocess.run(words.split(), check=True, capture_output=True)
        (master / "token").write_text(secrets.token_hex(32) + "\n")
        for name in ("token", "ca.pem"):
            (node / name).write_bytes((master / name).read_bytes())

    def node(self, index: int, incarnation: int, grace_s: int | None = None) -> Job:
        flags = [*self.shape, "--rdzv-endpoint", self.endpoint, "--node-name", f"node{index}",
                 "--incarnation", str(incarnation), "--credentials",
                 str(self.directory / "for-node")]
        env = {} if grace_s is None else {"PACELINE_GRACE_SECONDS": str(grace_s)}
        directory = self.of(f"node{index}-{incarnation}")
        return Job(directory, env=env).start_steps(flags, steps=ENDLESS)

    def kill_all(self, job: Job, node: str) -> None:
        """What a deleted container looks like: its processes are gone at once."""
        assert job.launcher is not None
        job.launcher.kill()
        job.launcher.wait()
        ranks, agent = self.master.rank_pids(node), job.agent_pid(node)
        os.kill(agent, signal.SIGSTOP)  # it must not see its ranks die before it
        for pid in ranks:
            os.killpg(pid, signal.SIGKILL)
        os.kill(agent, signal.SIGKILL)


@pytest.fixture
def placed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Placed]:
    """A node that is lost may not come back, so no node is lost for being slow. A test whose node
    dies without a word says how long its silence lasts."""
    job = Placed(tmp_path, lost_after=getattr(request, "param", "60s"))
    yield job
    job.master.command("stop", "--job", str(job.master.run_dir))
    job.master.wait()


@pytest.mark.parametrize("placed", ["6s"], indirect=True)
def test_the_next_incarnation_takes_the_place_of_a_dead_node(placed: Placed) -> None:
    first, second = placed.node(0, 0), placed.node(1, 0)
    placed.master.until_stepping(2)
    placed.kill_all(second, "node1")
    placed.master.until_event("node_lost")
    placed.master.until_stepping(1, beyond=1)

    late = placed.node(2, 0)
    assert late.wait() == EXIT_FENCED, "nobody asked for a third node"
    assert "PL-E110" in late.stderr

    placed.node(1, 1)
    placed.master.until_stepping(2)
    again = Job(second.directory, "again").start_steps(
        [*placed.shape, "--rdzv-endpoint", placed.endpoint, "--node-name", "node1",
         "--credentials", str(placed.directory / "for-node")], steps=ENDLESS)
    assert again.wait() == EXIT_FENCED, "the old incarnation is of the past"
    assert "node1 is not one that the master requested" in again.stderr
    assert first.launcher is not None and first.launcher.poll() is None


def test_a_node_that_its_platform_takes_away_trains_on_and_is_replaced(placed: Placed) -> None:
    # The next node has to ask before this one has left.
    grace_s = 20
    nodes = [placed.node(index, 0, grace_s) for index in (0, 1)]
    placed.master.until_stepping(2)
    before = placed.master.step()
    assert nodes[1].launcher is not None
    nodes[1].launcher.send_signal(signal.SIGTERM)
    noticed, = placed.master.until_event("node_noticed")
    assert noticed["node"] == "node1"

    successor = placed.node(1, 1, grace_s)
    log = successor.run_dir / "logs" / "node1" / "agent.log"
    eventually(lambda: log.exists() and "PL-E112" in log.read_text(), "the next one waits",
               job=successor)
    eventually(lambda: placed.master.step() > before, "the world trains on meanwhile",
               job=placed.master)
    assert not placed.master.events("node_left")

    # The script saves nothing, so the node leaves at the last moment.
    assert nodes[1].wait() == 128 + signal.SIGTERM
    left, = placed.master.until_event("node_left")
    leave_by = int(noticed["details"]["leave_by_ns"]) / 1e9
    assert leave_by <= noticed["time"] + grace_s + 0.001
    assert left["time"] >= leave_by - LEAVE_BEFORE_S - 0.001
    assert "its time is over" in left["sentence"]
    placed.master.until_stepping(2, beyond=2)
    kinds = {event["kind"] for event in placed.master.events()}
    assert not {"node_lost", "rank_failed"} & kinds
    assert successor.launcher is not None and successor.launcher.poll() is None


def until_copied(node: Job, name: str, term: int) -> None:
    log = node.run_dir / "logs" / name / "agent.log"
    eventually(lambda: f"journal_copied term={term} " in log.read_text(),
               f"{name} has a copy of the journal of term {term}", job=node)


def facts(job: Job) -> list[JsonDict]:
    """What the newest master decided, in order."""
    events = job.events()
    begin = max(i for i, event in enumerate(events) if event["kind"] == "master_took_over")
    return events[begin:]


def test_a_world_outlives_the_host_of_its_master(placed: Placed) -> None:
    nodes = [placed.node(0, 0), placed.node(1, 0)]
    placed.master.until_stepping(2)
    for index, node in enumerate(nodes):
        until_copied(node, f"node{index}", term=1)
    before = [event["sentence"] for event in placed.master.events()]
    pids = {rank: row["pid"] for rank, row in placed.master.until_stepping(2).items()}

    placed.lose_master()
    placed.master = placed.master_of(2, survivors=2)
    now = {rank: row["pid"] for rank, row in placed.master.until_stepping(2).items()}
    took_over, *rest = facts(placed.master)
    assert took_over["details"]["history"] == "a copy"
    assert took_over["details"]["term"] == "2"
    known = [event["sentence"] for event in placed.master.events()]
    assert known[:len(before)] == before, "the next master knows the past"
    assert not {"world_ended", "world_formed", "rank_failed"} & {row["kind"] for row in rest}
    assert now == pids

    # Worlds are numbered on, and nobody reads the term in them.
    os.killpg(pids[1], signal.SIGKILL)
    placed.master.until_event("rank_failed")
    # The rank that lives on is still told of by its old world for a moment.
    eventually(
        lambda: {row["generation"] for row in placed.master.until_stepping(2).values()} == {2},
        "both ranks step in the second world", job=placed.master)
    formed = placed.master.events("world_formed")[-1]
    assert (formed["generation"], "world 2 has 2 nodes" in formed["sentence"]) == (2, True)
    for index, node in enumerate(nodes):
        until_copied(node, f"node{index}", term=2)
        logs = node.run_dir / "logs" / f"node{index}"
        assert (logs / f"g{(2 << 32) + 2}").is_dir(), "folders carry the term"


def test_a_node_takes_no_orders_of_an_old_master(placed: Placed) -> None:
    node = placed.node(0, 0)
    placed.master.until_stepping(1)
    until_copied(node, "node0", term=1)
    placed.lose_master()
    second = placed.master_of(2, survivors=1)
    pids = {row["pid"] for row in second.until_stepping(1).values()}
    placed.master = second
    placed.lose_master()

    # As one that was cut off and comes back.
    old = placed.master_of(1, survivors=0)
    refusal = node.run_dir / "logs" / "node0" / "agent.log"
    eventually(lambda: "PL-E111" in refusal.read_text(), "the old master is met", job=node)
    assert not old.events("node_joined"), "it has judged nobody"
    assert all(Path(f"/proc/{pid}").exists() for pid in pids), "the ranks train on"
    placed.master = old
    placed.lose_master()

    placed.master = placed.master_of(3, survivors=1)
    now = {row["pid"] for row in placed.master.until_stepping(1).values()}
    assert facts(placed.master)[0]["details"]["history"] == "a copy"
    assert now == pids


def test_what_a_platform_forgot_is_named(tmp_path: Path) -> None:
    job = Job(tmp_path).start(
        ["--nnodes", "2", "--local-nodes", "0", "--rdzv-endpoint", "127.0.0.1:1",
         "--credentials", str(tmp_path / "nothing")], [])
    assert job.wait() == 4
    assert f"{tmp_path}/nothing/token" in job.stderr
    open_job = Job(tmp_path, "open").start(["--local-nodes", "0"], [])
    assert open_job.wait() == 2
    assert "--credentials" in open_job.stderr
