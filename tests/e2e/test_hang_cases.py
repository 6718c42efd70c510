"""Each way in which ranks of a plain script hang, or only seem to: what is said, what is done."""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import hosts as cluster
import pytest
from hosts import PREFIX, Host, ip, needs_hosts
from job import DEADLINE_S, ROOT, SCRIPTS, Job, JsonDict, eventually
from paceline._base.processes import stat_of

pytest.importorskip("torch", reason="the script trains with torch")
RANKS = 4
SCRIPT = str(SCRIPTS / "hang_cases.py")
FAULTS = str(ROOT / "python" / "paceline" / "_drill" / "faults.py")
ONE = ["--standalone", "--nproc-per-node", str(RANKS)]
# In place of the times until a rank is acted on, of those that have one.
ACT_AFTER = 4.0
SEEMS_HUNG = 12.0  # well beyond it
TRIALS_OF_SCRIPT = 3
# A rank may be stopped in the middle of a collective, which some of the others have left by then.
CALL = (r"\w+ \d+ of (?:the world \([\w.:]+\)"
        r"|group (?:1 \(ranks 0-[13], created first\)|2 \(ranks 0-[13], created second\))"
        r" at [\w.:]+\b)")
WAITERS = rf"Ranks? [\d, and]+ waited \d+\.\d s for it in {CALL}\."
OTHERS = rf"Ranks 0, 2 and 3 waited \d+\.\d s for it in {CALL}\."


def start(job: Job, case: str, *args: str, env: Mapping[str, str] | None = None) -> None:
    job.be_patient().env |= {"PACELINE_HANG_ACT_AFTER": f"{ACT_AFTER}s", **(env or {})}
    job.start(ONE, [SCRIPT, "--case", case, *args])


def until_step(job: Job, step: int) -> dict[int, JsonDict]:
    """Counted steps: the script tells nothing."""
    def ask() -> dict[int, JsonDict] | None:
        ranks = job.ranks()
        is_there = [rank["step_count"] >= step for rank in ranks.values()]
        return ranks if len(is_there) == RANKS and all(is_there) else None

    return eventually(ask, f"step {step}", job=job)


@contextmanager
def stopped_agent(job: Job) -> Iterator[None]:
    """It does not look at ranks that the test has half changed, and no look shows them so."""
    agent = job.agent_pid("node0")
    os.kill(agent, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(agent, signal.SIGCONT)


def start_endless(job: Job) -> None:
    """It trains until `end_well` is called."""
    start(job, "none", "--enough", str(job.directory / "enough"))


def end_well(job: Job) -> None:
    (job.directory / "enough").touch()
    assert job.wait() == 0, job.stderr


def verdicts(job: Job, deadline_s: float = DEADLINE_S) -> list[JsonDict]:
    return eventually(lambda: job.events("hang_judged"), "a verdict", deadline_s, job)


def until_restarted(job: Job, rank: int = 1) -> JsonDict:
    """The verdict that was acted on. Nobody but `rank` failed, and the world is another one."""
    def ask() -> JsonDict | None:
        acted = [event for event in job.events("hang_judged") if event["details"]["acts"] == "true"]
        return acted[0] if acted else None

    judged = eventually(ask, "a verdict that is acted on", job=job)
    job.until_event("world_formed", 2)
    failed = job.events("rank_failed")
    assert [event["rank"] for event in failed] == [rank], failed
    assert failed[0]["details"]["how"] == "hung"
    assert judged["details"]["culprits"] == str(rank)
    return judged


def all_wait_and_nobody_is_to_blame(job: Job, call: str) -> None:
    """`call` is a pattern."""
    event = verdicts(job)[0]
    assert re.match(rf"Ranks 0–3 have waited \d+\.\d s in {call}\. "
                    r"No rank is to blame\.$", event["sentence"]), event["sentence"]
    assert event["details"].get("culprits", "") == ""
    time.sleep(ACT_AFTER)
    assert job.events("rank_failed") == []


def line_of(text: str, path: str = SCRIPT) -> int:
    """Where that text stands in the script of these tests."""
    lines = Path(path).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def place_of_fault(text: str) -> str:
    """The same in the faults that the script imports."""
    return f"faults.py:{line_of(text, FAULTS)}"


# ---- one rank, while it trains ----
@pytest.mark.parametrize(("case", "text", "words"), [
    ("gil", "PyDLL(None).sleep", r"does not go on in {line}, forward; it waits in sleep"),
    ("loop", "re.match(", r"is busy in {line}, forward"),
    ("deadlock", "second.acquire()", r"does not go on in {line}, forward; it waits in a lock"),
])
def test_a_rank_that_hangs_in_its_step(job: Job, case: str, text: str, words: str) -> None:
    start(job, case)
    judged = until_restarted(job)
    line = place_of_fault(text)
    expected = rf"Rank 1 on node0 {words.format(line=re.escape(line))}\. {OTHERS}$"
    assert re.match(expected, judged["sentence"]), judged["sentence"]


# ---- several ranks ----
@pytest.mark.parametrize("count", [2, RANKS])
def test_several_stopped_ranks_are_told_of_with_the_way_out(job: Job, count: int) -> None:
    start_endless(job)
    ranks = until_step(job, 25)
    pids = [ranks[rank]["pid"] for rank in range(RANKS)[-count:]]
    with stopped_agent(job):  # a rank that has stopped alone is restarted
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
    sentence = verdicts(job)[0]["sentence"]
    named = "2 and 3" if count == 2 else "0–3"
    assert sentence.startswith(f"Ranks {named} were stopped (SIGSTOP)."), sentence
    assert f"On node0: kill -CONT {' '.join(map(str, pids))}" in sentence, sentence
    time.sleep(ACT_AFTER)
    with stopped_agent(job):
        for pid in pids:  # as the sentence says
            os.kill(pid, signal.SIGCONT)
    end_well(job)
    assert job.events("rank_failed") == []
    assert len(job.events("world_formed")) == 1


def test_a_rank_that_never_comes_to_the_process_group(job: Job) -> None:
    start(job, "absent")
    sentence = verdicts(job, 10 + DEADLINE_S)[0]["sentence"]
    port = re.search(r"Ranks 0, 2 and 3 waited (\d+)\.\d s for it in init_process_group 1 of the "
                     r"world \(hang_cases\.py:\d+, at [\w.:-]+:(\d+)\)\.$", sentence)
    assert port, sentence
    assert int(port[1]) >= 10, "the first of them came no later"
    assert re.match(r"Rank 1 on node0 does not go on in hang_cases\.py:\d+, start; it waits in "
                    r"sleep; it may be importing or loading\. ", sentence), sentence
    assert job.events("rank_failed") == []


# ---- ranks whose calls differ ----
def test_calls_in_another_order(job: Job) -> None:
    start(job, "order")
    assert job.wait() == 1, job.stderr
    judged = job.events("hang_judged")
    assert len(judged) == TRIALS_OF_SCRIPT
    for event in judged:
        both = re.findall(r"(all_reduce|barrier) \d+ of (group \d \(ranks 0-3, created \w+\)) at "
                          r"hang_cases\.py:(\d+)", event["sentence"])
        assert {operation for operation, *_ in both} == {"all_reduce", "barrier"}, event
        assert {group for _, group, _ in both} == {"group 1 (ranks 0-3, created first)",
                                                   "group 2 (ranks 0-3, created second)"}, event
        assert len({line for *_, line in both}) == 2, event


def other_shape(size: int) -> str:
    wrong, right = line_of("torch.ones(script.options"), line_of("dist.all_reduce(votes, ")
    return (f"ank 1 made another call than ranks 0, 2 and 3: all_reduce of {4 * size} bytes of "
            f"float32 at hang_cases.py:{wrong}, not all_reduce of 32 bytes of float32 at "
            f"hang_cases.py:{right}")


def test_a_smaller_shape_hangs_and_both_lines_are_named(job: Job) -> None:
    start(job, "shape", "--size", "7")
    assert job.wait() == 1, job.stderr
    judged = job.events("hang_judged")
    assert len(judged) == TRIALS_OF_SCRIPT
    assert all(event["sentence"].startswith(f"R{other_shape(7)}. ") for event in judged), judged


def test_a_larger_shape_ends_ranks_and_both_lines_are_named(job: Job) -> None:
    """Gloo ends the process that gets too many bytes, so no rank hangs."""
    start(job, "shape", "--size", "9")
    assert job.wait() == 1, job.stderr
    assert job.events("hang_judged") == []
    failed, expected = job.events("rank_failed"), f"r{other_shape(9)}"
    worlds = {event["generation"] for event in failed if expected in event["sentence"]}
    assert len(worlds) == TRIALS_OF_SCRIPT, [event["sentence"] for event in failed]


# ---- what ranks read ----
@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "shard.fifo"
    os.mkfifo(path)
    keeper = os.open(path, os.O_RDWR)  # so that opening does not block, and reading does
    yield path
    os.close(keeper)


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "index.lock"
    with open(path, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield path


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_that_waits_for_a_file_in_one_rank(job: Job, fifo: Path, workers: int) -> None:
    start(job, "fifo", "--path", str(fifo), "--workers", str(workers))
    judged = until_restarted(job)
    script = "hang_cases" if workers else "faults"  # a worker's line is not known
    assert re.match(
        rf"Rank 1 on node0 does not go on in {script}\.py:\d+, data; it waits in read of "
        rf"{re.escape(str(fifo))}.*\. {OTHERS}$", judged["sentence"]), judged["sentence"]


def test_a_stopped_worker_of_a_loader_in_one_rank(job: Job) -> None:
    start(job, "worker", "--workers", "1")
    judged = until_restarted(job)
    assert re.match(
        rf"Rank 1 on node0 does not go on in hang_cases\.py:{line_of('next(batches)')}, data; its "
        rf"loader's worker, process (\d+), is stopped \(kill -CONT \1 continues it\)\. {OTHERS}$",
        judged["sentence"]), judged["sentence"]


def test_a_loader_that_waits_for_a_lock_in_one_rank(job: Job, locked: Path) -> None:
    start(job, "flock", "--path", str(locked))
    judged = until_restarted(job)
    assert f"data; it waits in flock of {locked}. " in judged["sentence"]


def test_loaders_that_wait_for_one_file_in_all_ranks(job: Job, fifo: Path) -> None:
    start(job, "fifo", "--path", str(fifo), "--ranks", "0", "1", "2", "3")
    all_wait_and_nobody_is_to_blame(job, f"read of {re.escape(str(fifo))}")


# ---- what ranks ask others for ----
@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_server_that_does_not_answer_one_rank(job: Job, silent: int) -> None:
    start(job, "answer", "--port", str(silent))
    judged = until_restarted(job)
    line = re.escape(place_of_fault("server.recv(1)"))
    assert re.match(
        rf"Rank 1 on node0 does not go on in {line}, forward; it waits in receive "
        rf"from 127\.0\.0\.1:{silent}\. {OTHERS}$", judged["sentence"]), judged["sentence"]


def test_a_server_that_does_not_answer_all_ranks(job: Job, silent: int) -> None:
    start(job, "answer", "--port", str(silent), "--ranks", "0", "1", "2", "3")
    all_wait_and_nobody_is_to_blame(job, rf"receive from 127\.0\.0\.1:{silent}")


SERVER = r"127\.5[34]\.[\d.]+:53"
# Root, for a resolv.conf of their own, and for port 53.
asks_names = pytest.mark.skipif(os.geteuid() != 0, reason="NAME SERVERS NOT TESTED: needs root")


@pytest.fixture
def deaf(tmp_path: Path) -> Iterator[Path]:
    """A resolv.conf whose two name servers take questions and never answer."""
    path = tmp_path / "resolv.conf"
    with ExitStack() as stack:
        for network in (53, 54):
            address = f"127.{network}.{os.getpid() // 250 % 250 + 1}.{os.getpid() % 250 + 1}"
            server = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            server.bind((address, 53))
            with path.open("a") as file:
                file.write(f"nameserver {address}\n")
        yield path


@asks_names
def test_a_name_server_that_does_not_answer_one_rank(job: Job, deaf: Path) -> None:
    start(job, "name", "--path", str(deaf))
    judged = until_restarted(job)
    line = line_of("socket.getaddrinfo(")
    assert re.match(
        rf"Rank 1 on node0 does not go on in hang_cases\.py:{line}, forward; it waits in poll of "
        rf"{SERVER}, a name server\. {OTHERS}$", judged["sentence"]), judged["sentence"]


@asks_names
def test_a_name_server_that_does_not_answer_all_ranks(job: Job, deaf: Path) -> None:
    start(job, "name", "--path", str(deaf), "--ranks", "0", "1", "2", "3")
    all_wait_and_nobody_is_to_blame(
        job, rf"poll of {SERVER}(, a name server| and {SERVER}, name servers)")


# ---- what only seems to hang ----
def test_a_step_that_is_no_evaluation_is_acted_on(job: Job) -> None:
    """So that the tests below can fail: without what excuses those ranks, this happens."""
    start(job, "slow", "--seconds", "1000")
    until_restarted(job)


@pytest.mark.parametrize("case", ["evaluate", "save", "compile"])
def test_what_takes_long_and_may(job: Job, case: str) -> None:
    start(job, case, "--ranks", "0", "--steps", "40", "--seconds", str(SEEMS_HUNG))
    assert job.wait() == 0, job.stderr
    assert job.events("rank_failed") == []
    assert not [event for event in job.events("hang_judged") if event["details"]["acts"] == "true"]
    # It was looked at: the test would be idle otherwise.
    assert list(job.run_dir.glob("logs/node0/hang-*")) != []


def test_a_rank_that_is_ten_times_slower_is_not_hung(job: Job) -> None:
    start(job, "tenfold", "--steps", "60")
    assert job.wait() == 0, job.stderr
    assert job.events("rank_failed") == []
    assert job.events("hang_judged") == []


def test_a_teacher_in_eval_mode_excuses_nobody(job: Job) -> None:
    start(job, "teacher", "--seconds", "1000")
    assert ", forward; it waits in sleep" in until_restarted(job)["sentence"]


PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207


@contextmanager
def debugger_on(pid: int) -> Iterator[None]:
    """This process holds `pid` as gdb does at its prompt."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    assert libc.ptrace(PTRACE_SEIZE, pid, None, None) == 0, os.strerror(ctypes.get_errno())
    assert libc.ptrace(PTRACE_INTERRUPT, pid, None, None) == 0
    os.waitpid(pid, 0)
    try:
        yield
    finally:
        libc.ptrace(PTRACE_DETACH, pid, None, None)


@pytest.mark.skipif(os.geteuid() != 0, reason="DEBUGGER NOT TESTED: only root may trace a rank")
def test_a_rank_that_a_debugger_holds(job: Job) -> None:
    start_endless(job)
    ranks = until_step(job, 25)
    with debugger_on(ranks[1]["pid"]):
        sentence = verdicts(job)[0]["sentence"]
        assert re.match(r"Rank 1 is held by a debugger.*\. Nothing is done about it\.$",
                        sentence), sentence
        time.sleep(ACT_AFTER)
    end_well(job)
    assert job.events("rank_failed") == []


# ---- who judges is not there meanwhile ----
def pid_of(job: Job, who: str) -> int:
    return job.card["master"]["pid"] if who == "master" else job.agent_pid("node0")


@pytest.mark.parametrize("who", ["master", "agent"])
def test_a_stopped_rank_is_named_by_the_next_master_and_agent(job: Job, who: str) -> None:
    when = job.directory / "when"
    start(job, "stop", "--when", str(when))
    rank = until_step(job, 25)[1]["pid"]
    pid = pid_of(job, who)
    os.kill(pid, signal.SIGSTOP)  # or it may judge before it is killed
    when.touch()
    eventually(lambda: stat_of(rank)[0] == "T", "rank 1 has stopped itself", job=job)
    os.kill(pid, signal.SIGKILL)
    judged = until_restarted(job)
    # Which signal it was is known to the parent of the ranks, which dies with its agent.
    by = r" \(SIGSTOP\)" if who == "master" else r"( \(SIGSTOP\))?"
    assert re.match(rf"Rank 1 on node0 was stopped{by}.*\. {OTHERS}$",
                    judged["sentence"]), judged["sentence"]
    assert len(job.events("hang_judged")) == 1


@pytest.mark.parametrize("who", ["master", "agent"])
def test_the_time_of_a_stopped_master_or_agent_blames_nobody(job: Job, who: str) -> None:
    start_endless(job)
    until_step(job, 25)
    pid = pid_of(job, who)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(SEEMS_HUNG)
    os.kill(pid, signal.SIGCONT)
    reached = max(rank["step_count"] for rank in until_step(job, 25).values())
    until_step(job, reached + 25)
    end_well(job)
    assert job.events("hang_judged") == []
    assert job.events("rank_failed") == []


# ---- evidence that is missing ----
def stand_in(directory: Path, sampler: str) -> Path:
    """The interpreter of these tests, in a folder with another py-spy, or with none."""
    venv = Path(sys.prefix)
    made = directory / "venv"
    (made / "bin").mkdir(parents=True)
    (made / "pyvenv.cfg").write_text((venv / "pyvenv.cfg").read_text())
    (made / "lib").symlink_to(venv / "lib")
    python = made / "bin" / "python3"
    python.symlink_to(Path(sys.executable).resolve())
    if sampler:
        (made / "bin" / "py-spy").write_text(f"#!/bin/sh\n{sampler}\n")
        (made / "bin" / "py-spy").chmod(0o755)
    return python


@pytest.mark.parametrize(("sampler", "why"), [
    ("", "py-spy is not installed"),
    ("echo 'Permission Denied' >&2; exit 1", "Permission Denied"),
    ("exec sleep 600", "py-spy did not answer within 3 s"),
])
def test_without_stacks_the_verdict_stands(job: Job, tmp_path: Path, sampler: str,
                                           why: str) -> None:
    python = stand_in(tmp_path, sampler)
    path = ":".join(folder for folder in os.environ["PATH"].split(":")
                    if not (Path(folder) / "py-spy").exists())
    start(job, "stop", env={"PACELINE_LAUNCH_PYTHON": str(python), "PATH": path})
    judged = until_restarted(job)
    assert re.match(rf"Rank 1 on node0 was stopped \(SIGSTOP\)(, \w+)?\. {OTHERS}$",
                    judged["sentence"]), judged["sentence"]
    assert f"no stacks: {why}" in judged["details"]["evidence"]


def test_without_records_the_verdict_stands(job: Job) -> None:
    start(job, "none")
    pid = until_step(job, 25)[1]["pid"]
    rings = Path(f"/dev/shm/paceline-{os.getuid()}") / job.card["id"] / "node0"
    (ring,) = rings.glob("rank-1.*.ring")
    with stopped_agent(job):  # it must not read the records before they are spoiled
        os.kill(pid, signal.SIGSTOP)
        with open(ring, "r+b") as file:
            file.write(os.urandom(65536))
    judged = until_restarted(job)
    assert re.match(rf"Rank 1 on node0 was stopped \(SIGSTOP\) in .*\. {WAITERS}$",
                    judged["sentence"]), judged["sentence"]
    assert "no records" in judged["details"]["evidence"]


# ---- what lies between the ranks ----
def join_data_network(hosts: list[Host]) -> None:
    """A second card in each host, "data0", on a bridge of its own, without the master."""
    switch = f"{PREFIX}sw"
    ip(f"-n {switch} link add br1 type bridge")
    ip(f"-n {switch} link set br1 up")
    for host in hosts:
        ip(f"link add data0 netns {host.space} type veth peer name d{host.index} netns {switch}")
        ip(f"-n {switch} link set d{host.index} master br1 up")
        ip(f"-n {host.space} addr add 10.78.0.{host.index + 1}/24 dev data0")
        ip(f"-n {host.space} link set data0 up")
        host.job.be_patient().env |= {"GLOO_SOCKET_IFNAME": "data0"}


@needs_hosts
def test_a_cut_of_the_data_network_blames_no_rank(hosts: list[Host]) -> None:
    join_data_network(hosts)
    first = hosts[0].job
    cluster.start(hosts[:2], "--nnodes", "2", script=[SCRIPT])

    def train() -> bool:
        ranks = first.ranks()
        return len(ranks) == 2 and all(rank["step_count"] >= 25 for rank in ranks.values())

    eventually(train, "step 25", job=first)
    ip(f"-n {PREFIX}sw link set d1 down")
    event = verdicts(first)[0]
    assert re.match(rf"Ranks? [\d and]+ entered {CALL} \d+\.\d s ago "
                    r"and .* left it.*\. The network between them is the likely cause; no rank "
                    r"is to blame\.$",
                    event["sentence"]), event["sentence"]
    assert event["details"].get("culprits", "") == ""
    assert event["details"]["acts"] == "false"
    assert first.events("rank_failed") == []
