"""The master's host is lost for good: `paceline ckpt rescue` saves what the others have."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hosts import Host, again, fetched, join_string, needs_hosts, start, until_training
from job import PATIENT, SCRIPTS, TOGETHER, Job, JsonDict, eventually
from jsonschema import Draft202012Validator

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
pytestmark = needs_hosts

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "schemas" / "ckpt_rescue.json"
RARELY = ["--every", "1000000"]  # nothing goes to storage before the end
# No host is lost by its silence. The master's host is ended, and the others notice that.
NONE_LOST = {name: PATIENT[name] for name in ("PACELINE_TIMERS_LOST_AFTER",
                                              "PACELINE_TIMERS_LOST_AFTER_MAX")}


@pytest.fixture
def hosts(hosts: list[Host]) -> list[Host]:
    for host in hosts:
        host.job.env |= NONE_LOST
    return hosts


def directory(host: Host) -> Path:
    return host.job.directory / "ckpt"


def script(host: Host, out: str, *args: str, steps: int = 100_000) -> list[str]:
    return [str(SCRIPTS / "flash.py"), "--checkpoint", str(directory(host)),
            "--out", str(host.job.directory / out), "--steps", str(steps), *args]


def checkpoints(host: Host) -> list[str]:
    return sorted(path.parent.name for path in directory(host).glob("*/MANIFEST.json"))


def rescue(host: Host, *flags: str) -> dict[str, object]:
    done = host.command("ckpt", "rescue", str(host.job.run_dir), "--json", *flags)
    assert done.returncode == 0, (done, host.job.stderr)
    told: dict[str, object] = json.loads(done.stdout)
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(told)
    return told


def start_at(hosts: list[Host], *flags: str, words: list[str]) -> None:
    """As hosts.start, with the first of these hosts as the master's."""
    first, *others = hosts
    place = ["--nproc-per-node", "1", "--rdzv-endpoint", f"{first.name}:29400", *flags]
    first.job.start([*place, "--tls"], words, first.inside())
    join = join_string(first)
    for host in others:
        host.job.start([*place, "--join", join], words, host.inside())


def until_lost(host: Host) -> None:
    eventually(lambda: "does not answer" in host.job.stderr and
               f"`paceline ckpt rescue {host.job.run_dir}`" in host.job.stderr,
               f"{host.name} names the command", job=host.job)


def lose_master(hosts: list[Host]) -> None:
    """The first host is gone, and the others name the command."""
    first, *others = hosts
    first.crash()
    for host in others:
        until_lost(host)


def restored(host: Host, out: str, rank: int) -> tuple[int, str]:
    words = (host.job.directory / out / f"restored-{rank}").read_text().splitlines()[0]
    return int(words.split()[1]), words


def test_a_step_of_which_each_rank_has_its_part_is_gathered(hosts: list[Host]) -> None:
    """The lost host's part is a copy. A new job of all three goes on, bit for bit."""
    first, second, third = hosts
    start(hosts, "--nnodes", "3", script=script(first, "out", "--cut", *RARELY))
    eventually(lambda: any(one["rank"] == "0" and int(one["step"]) >= 30
                           for host in (second, third) for one in fetched(host)),
               "another host has a copy of rank 0's step", job=first.job)
    alive = second.command("ckpt", "rescue", str(second.job.run_dir))
    assert alive.returncode == 2 and "PL-E087" in alive.stderr, alive
    until_training(first, 3, beyond=40)
    lose_master(hosts)
    for words in ("status", "why"):
        said = second.command(words, "--job", str(second.job.run_dir)).stderr
        assert f"paceline ckpt rescue {second.job.run_dir}" in said, said
    assert not checkpoints(first)
    told = rescue(second)
    assert checkpoints(first) == [told["name"]]
    step = told["step"]
    assert isinstance(step, int) and step >= 30 and told["world_size"] == 3, told
    verified = second.command("ckpt", "verify", str(directory(second)))
    assert verified.returncode == 0, verified
    for host in (second, third):
        assert host.job.wait() == 3, host.job.stderr
        eventually(lambda host=host: not host.pids(), "nothing of the job lives on that host")
    assert rescue(second) == {**told, "was_there": True}, "typed twice"
    for words in ("status", "why"):
        said = second.command(words, "--job", str(second.job.run_dir)).stderr
        assert f"{told['directory']}/{told['name']}" in said, said
        assert "lost for good" not in said, "it was rescued already"

    first.boot()
    second, third, first = again([second, third, first])
    end = step + 40
    start_at([second, third, first], "--nnodes", "3",
             words=script(second, "then", "--cut", *RARELY, steps=end))
    assert second.job.wait() == 0, second.job.stderr
    begun = [restored(second, "then", rank) for rank in range(3)]
    assert [one[0] for one in begun] == [step + 1] * 3, begun
    assert all((second.job.directory / "then" / f"final-{rank}").read_text() == f"{float(end)}"
               for rank in range(3))


def test_a_master_that_comes_back_commits_nothing_beside_it(hosts: list[Host]) -> None:
    """Its host was believed lost, and trains on alone. Data parallel: one host has all tensors."""
    first, second, third = hosts
    first.job.env |= TOGETHER
    start(hosts, "--nnodes", "1:3", "--grow", "never", script=script(first, "out", *RARELY))
    until_training(first, 3, beyond=30)
    lose_master(hosts)
    name = rescue(second)["name"]
    for host in (second, third):
        assert host.job.wait() == 3, host.job.stderr
        assert "`paceline ckpt rescue` was typed" in host.job.stderr, host.job.stderr
    first.start(["--resume"])
    until_training(first, 1, beyond=30)
    assert first.command("stop", "--job", str(first.job.run_dir)).returncode == 0
    assert first.job.wait() != 0
    assert checkpoints(first) == [name], first.job.stderr
    assert "the directory is for the job's master of term" in first.job.stderr, first.job.stderr


def test_a_host_that_is_cut_off_by_itself_rescues_nothing(hosts: list[Host]) -> None:
    """The master lives, and its own host's agent says so in the directory."""
    first, second, third = hosts
    first.job.env |= TOGETHER
    start(hosts, "--nnodes", "2:3", "--grow", "never", script=script(first, "out", *RARELY))
    until_training(first, 3, beyond=30)
    second.link("down")
    until_lost(second)
    done = second.command("ckpt", "rescue", str(second.job.run_dir))
    assert done.returncode == 2 and "PL-E087" in done.stderr, done
    assert "is connected to it" in done.stderr, done
    assert second.pids() and third.pids()
    assert not checkpoints(first)


def test_what_no_host_has_is_named(hosts: list[Host]) -> None:
    """Without copies the lost host's part is nowhere. Nothing is changed then."""
    first, second, third = hosts
    start(hosts, "--nnodes", "3", script=script(first, "out", "--cut", "--replicas", "0", *RARELY))
    until_training(first, 3, beyond=30)
    lose_master(hosts)
    done = second.command("ckpt", "rescue", str(second.job.run_dir))
    assert done.returncode == 3 and "PL-E088" in done.stderr, done
    assert "have no image of rank 0 of step" in done.stderr, done
    assert second.pids() and third.pids()
    assert not checkpoints(first)


def test_the_memory_of_dead_agents_is_read_too(hosts: list[Host]) -> None:
    """The agent and the launcher of the host on which the command is typed were killed."""
    first, second, third = hosts
    start(hosts, "--nnodes", "3", script=script(first, "out", "--cut", *RARELY))
    eventually(lambda: any(one["rank"] == "0" and int(one["step"]) >= 30
                           for host in (second, third) for one in fetched(host)),
               "another host has a copy of rank 0's step", job=first.job)
    first.crash()
    until_lost(third)
    second.crash()
    told = rescue(second)
    assert checkpoints(first) == [told["name"]] and told["world_size"] == 3, told
    assert third.job.wait() == 3, third.job.stderr
    eventually(lambda: not second.pids() and not third.pids(), "nothing of the job lives on")


def test_agents_stay_for_a_command_that_asks(hosts: list[Host]) -> None:
    """Their time without a master is over while the command still waits for other hosts."""
    first, second, third = hosts
    for host in hosts:
        host.job.env["PACELINE_TIMERS_ORPHAN_AFTER"] = "20s"
    start(hosts, "--nnodes", "3", script=script(first, "out", *RARELY))
    until_training(first, 3, beyond=30)
    lose_master(hosts)
    told = rescue(second)
    assert checkpoints(first) == [told["name"]] and told["world_size"] == 3, told
    for host in (second, third):
        assert host.job.wait() == 3, host.job.stderr
    eventually(lambda: not second.pids() and not third.pids(), "nothing of the job lives on")


def call_of(host: Host) -> JsonDict:
    """The call that is in the directory of the checkpoints; empty if there is none."""
    call = directory(host) / ".paceline-rescue" / "call.json"
    return json.loads(call.read_text()) if call.exists() else {}


def begun(host: Host) -> subprocess.Popen[str]:
    """`paceline ckpt rescue` on that host, whose call is written."""
    former = call_of(host).get("id")
    command = subprocess.Popen([*host.inside(),
                                *Job.command_line("ckpt", "rescue", str(host.job.run_dir))],
                               cwd=host.job.directory, env=host.job.env, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    eventually(lambda: call_of(host).get("id") not in (None, former), "the call is written",
               job=host.job)
    return command


@contextmanager
def that_does_not_end(pid: int) -> Iterator[None]:
    """A rank that stands still hears no SIGTERM: the command waits for its end, and stays at this
    stage however late the test looks."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # its agent kills it when the grace is over
            os.kill(pid, signal.SIGCONT)


def until_ranks_end(host: Host) -> None:
    eventually(lambda: call_of(host).get("stage") == "end", "the ranks are told to end",
               job=host.job)


def test_one_command_at_a_time_and_ctrl_c_says_how_it_stands(hosts: list[Host]) -> None:
    first, second, third = hosts
    start(hosts, "--nnodes", "3", script=script(first, "out", *RARELY))
    rank = until_training(first, 3, beyond=30)[third.name]["pid"]
    lose_master(hosts)
    asking = begun(second)
    asking.send_signal(signal.SIGINT)
    said = asking.communicate()[1]
    assert asking.returncode == 130 and "nothing was changed" in said, said
    assert second.pids() and third.pids()
    with that_does_not_end(rank):
        ending = begun(second)
        refused = third.command("ckpt", "rescue", str(third.job.run_dir))
        assert refused.returncode == 3, refused
        assert "another `paceline ckpt rescue`" in refused.stderr, refused
        until_ranks_end(second)
        ending.send_signal(signal.SIGINT)
        said = ending.communicate()[1]
        assert ending.returncode == 130 and "type the same command again" in said, said
    told = third.command("ckpt", "rescue", str(third.job.run_dir)).stdout
    assert "brought step" in told, told
    assert len(checkpoints(first)) == 1


def test_a_command_that_is_killed_is_typed_again(hosts: list[Host]) -> None:
    """After the ranks were told to end, and before the step is written."""
    first, second, third = hosts
    start(hosts, "--nnodes", "3", script=script(first, "out", *RARELY))
    rank = until_training(first, 3, beyond=30)[third.name]["pid"]
    lose_master(hosts)
    with that_does_not_end(rank):
        killed = begun(second)
        until_ranks_end(second)
        killed.kill()
        killed.wait()
        assert not checkpoints(first)
    told = rescue(third)
    assert checkpoints(first) == [told["name"]], "from the other host, this time"
    for host in (second, third):
        assert host.job.wait() == 3, host.job.stderr
