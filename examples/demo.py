"""The main job: train, kill a rank, a node and the master, and prove that nothing was lost.

    make demo        # or: .venv/bin/python examples/demo.py

Three nodes of two ranks and a hot spare, all on this machine, train examples/train_bytes.py. While
it trains, this script looks at `paceline status --json` and kills what it names, as you would by
hand. Afterwards the same training runs undisturbed, and both must end with the same bits.

It exits with 1, and says why, if anything that it promises is not so.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from samples import Count, count_samples, read_trace
from story import Incident, Story, parse_events, read_story
from timeline import duration, render

EXAMPLES = Path(__file__).resolve().parent
PACELINE = Path(sys.executable).parent / "paceline"
NODES, RANKS_EACH, SPARES = 3, 2, 1
TEXT_BYTES = 1 << 18
SAMPLES = (TEXT_BYTES - 1) // 64  # windows of text, of which an epoch reads each once
STALL_SECONDS = 60.0  # without a new step for so long, the demo gives up
# On a busy machine an agent may be silent for seconds. The demo counts the faults that it makes,
# and a node that was only slow would be one more.
PATIENT = {"PACELINE_TIMERS_LOST_AFTER": "60s", "PACELINE_TIMERS_LOST_AFTER_MAX": "60s",
           "PACELINE_TIMERS_REATTACH_WINDOW": "60s"}


class DemoError(Exception):
    """Something that the demo promises did not happen."""


@dataclass(frozen=True, kw_only=True)
class Rank:
    rank: int
    node: str
    pid: int
    step: int


def newest(rank: dict[str, Any]) -> int:
    step = rank.get("step")
    return -1 if step is None else int(step)


@dataclass(frozen=True, kw_only=True)
class Status:
    """The part of `paceline status --json` that the demo needs, of a job that has its master."""

    generation: int
    master: int  # pid
    agents: dict[str, int]  # node → pid
    ranks: list[Rank]
    step: int
    goodput: float

    @classmethod
    def parse(cls, text: str) -> Self | None:
        told = json.loads(text)
        if told["master"]["pid"] is None:
            return None
        ranks = [
            Rank(rank=r["rank"], node=node["name"], pid=r["pid"], step=newest(r))
            for node in told["nodes"]
            for r in node["ranks"]
            if r["generation"] == told["world"]["generation"] and r["exit"] is None
            and r["pid"] is not None  # it has been started
        ]
        return cls(
            generation=told["world"]["generation"],
            master=told["master"]["pid"],
            agents={
                node["name"]: node["agent_pid"]
                for node in told["nodes"]
                if node["agent_pid"] is not None
            },
            ranks=sorted(ranks, key=lambda rank: rank.rank),
            step=max((rank.step for rank in ranks), default=-1),
            goodput=told["job"].get("goodput") or 0.0,
        )


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Whom to kill, once training has reached `step`."""

    step: int
    text: str
    victims: Callable[[Status], list[int]]
    about: Callable[[Status], dict[str, Any]]


def a_rank(step: int, rank: int) -> Fault:
    return Fault(
        step=step,
        text=f"rank {rank} killed",
        victims=lambda now: [one.pid for one in now.ranks if one.rank == rank],
        about=lambda _: {"rank": rank},
    )


def a_node(step: int, holds: int) -> Fault:
    """The node that holds this rank: its agent and all its ranks at once."""

    def name(now: Status) -> str:
        return now.ranks[holds].node

    return Fault(
        step=step,
        text="a whole node killed",
        victims=lambda now: [
            now.agents[name(now)],
            *(one.pid for one in now.ranks if one.node == name(now)),
        ],
        about=lambda now: {"node": name(now)},
    )


def the_master(step: int) -> Fault:
    return Fault(
        step=step,
        text="master killed",
        victims=lambda now: [now.master],
        about=lambda _: {"of_master": True},
    )


@dataclass(kw_only=True)
class Run:
    """One `paceline run` of the example, watched from outside."""

    folder: Path
    steps: int
    notes: list[dict[str, Any]] = field(default_factory=list)  # faults and steps, as events
    goodput: float = 0.0

    @property
    def digest(self) -> Path:
        return self.folder / "digest.txt"

    @property
    def trace(self) -> Path:
        return self.folder / "trace"

    def command(self) -> list[str]:
        shape = ["--local-nodes", NODES, "--nproc-per-node", RANKS_EACH, "--spares", SPARES]
        script = [EXAMPLES / "train_bytes.py", "--steps", self.steps, "--digest", self.digest]
        script += ["--checkpoint", self.folder / "checkpoint", "--print-every", 20]
        script += ["--trace", self.trace, "--text-bytes", TEXT_BYTES]
        command = [PACELINE, "run", *shape, "--run-dir", self.folder / "run", *script]
        return [str(part) for part in command]

    def train(self, faults: list[Fault]) -> None:
        """Run to the end, with these faults on the way; raises DemoError when it gets stuck."""
        self.folder.mkdir(parents=True)
        say(f"$ {' '.join(show(part) for part in self.command())}")
        env = {**os.environ, **PATIENT, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(self.command(), env=env)
        try:
            for fault in faults:
                self.inject(process, fault)
            self.watch(process, until=lambda _: False)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        if process.returncode != 0:
            raise DemoError(f"`paceline run` ended with {process.returncode}, expected 0")

    def inject(self, process: subprocess.Popen[bytes], fault: Fault) -> None:
        reached = self.watch(process, until=lambda now: self.is_ready(now, fault.step))
        if reached is None:
            raise DemoError(f"the job ended before step {fault.step}: {fault.text} was not tried")
        victims = fault.victims(reached)
        if not victims or min(victims) <= 1:
            raise DemoError(f"`paceline status` names nobody for: {fault.text}")
        about = fault.about(reached)
        text = fault.text.replace("a whole node", str(about.get("node")))
        self.note("fault_injected", reached.step, text=text, **about)
        # A host goes as a whole: none of its processes may see another one die.
        for pid in victims if len(victims) > 1 else ():
            os.kill(pid, signal.SIGSTOP)
        for pid in reversed(victims):  # the agent is the first of them and goes last
            os.kill(pid, signal.SIGKILL)
        say(f"kill -9 {' '.join(map(str, victims))}   # {text}, at step {reached.step}")

    def is_ready(self, now: Status, step: int) -> bool:
        return len(now.ranks) == NODES * RANKS_EACH and now.step >= step

    def watch(
        self, process: subprocess.Popen[bytes], *, until: Callable[[Status], bool]
    ) -> Status | None:
        """Poll until the condition holds; None when the job ended before."""
        newest, changed = -2, time.monotonic()
        while process.poll() is None:
            now = self.look()
            if now and now.step != newest:
                newest, changed = now.step, time.monotonic()
                self.note("progress", now.step)
            if now and until(now):
                return now
            if time.monotonic() > changed + STALL_SECONDS:
                raise DemoError(f"no step for {STALL_SECONDS:.0f} s, the last one was {newest}")
            time.sleep(0.1)
        return None

    def look(self) -> Status | None:
        """The status; None while the job is not there yet or its master is away."""
        command = [PACELINE, "status", "--json", "--run-dir", str(self.folder / "run")]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            return None
        now = Status.parse(answer.stdout)
        if now is not None:
            self.goodput = now.goodput
        return now

    def note(self, kind: str, step: int, **more: Any) -> None:
        self.notes.append({"kind": kind, "time_ns": time.time_ns(), "step": step, **more})

    def count(self) -> Count:
        return count_samples(read_trace(self.trace), samples=SAMPLES)

    def story(self) -> Story:
        """What happened, from the job's own events and from what was done to it."""
        command = [PACELINE, "events", "--json", "--run-dir", str(self.folder / "run")]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        lines = [*answer.stdout.splitlines(), *map(json.dumps, self.notes)]
        (self.folder / "events.jsonl").write_text("\n".join(lines) + "\n")
        return read_story(parse_events(lines))


def say(words: str) -> None:
    """Print on a line of its own, also where a live line stands."""
    clear = "\r\x1b[K" if sys.stdout.isatty() else ""
    print(f"{clear}{words}", flush=True)


def show(part: str) -> str:
    return os.path.relpath(part) if part.startswith("/") else part


def check(story: Story, digests: tuple[str, str]) -> list[str]:
    """Everything that is not as promised; empty when all is well."""
    wrong: list[str] = []
    names = ("rank", "node", "master")
    if len(story.incidents) != len(names):
        titles = [incident.title for incident in story.incidents]
        return [f"the events tell of {len(titles)} incidents instead of 3: {titles}"]
    rank, node, master = story.incidents
    for name, incident in zip(names, story.incidents, strict=True):
        if incident.running_at is None:
            wrong.append(f"{name}: training did not come back, or no event says so")
    if rank.rung != "restart process":
        wrong.append(f"rank: expected the rung 'restart process', not '{rank.rung}'")
    if node.rung != "replace node":
        wrong.append(f"node: expected the rung 'replace node', not '{node.rung}'")
    heirs = {move.lane for move in story.moves if move.begin > node.fault_at}
    if heirs != node.lanes:
        wrong.append(f"node: ranks {sorted(node.lanes)} were lost, but {sorted(heirs)} moved")
    moved = [incident for incident in story.incidents if incident is not master]
    if any(incident.fault_at > master.fault_at for incident in moved):
        wrong.append("master: ranks were restarted because of it")
    if digests[0] != digests[1]:
        wrong.append(f"final weights differ: {digests[0]} and, undisturbed, {digests[1]}")
    return wrong


def check_samples(faulted: Count, reference: Count) -> list[str]:
    """Everything about the data that is not as promised."""
    wrong: list[str] = []
    for name, count in (("with faults", faulted), ("undisturbed", reference)):
        lost = count.missing(reference)
        if lost or count.repeated:
            wrong.append(f"{name}: {lost} samples were lost and {count.repeated} repeated")
    if faulted.read != reference.read:
        wrong.append(f"{faulted.read} samples counted, undisturbed {reference.read}")
    return wrong


def samples_row(faulted: Count, reference: Count) -> str:
    lost, again = faulted.missing(reference), faulted.steps_again
    said = f"samples: {faulted.read} read, {lost} lost, {faulted.repeated} repeated"
    return f"{said}; {again} {'step was' if again == 1 else 'steps were'} done again"


def table(story: Story) -> str:
    """One row an incident, the sentence of its decision below."""
    head = ("fault", "detected after", "training again after", "steps redone")
    rows = [f"{head[0]:<26}{head[1]:>14}{head[2]:>22}{head[3]:>14}"]
    for incident in story.incidents:
        again = since(incident, incident.running_at)
        if incident.of_master:
            again = "never stopped" if incident.running_at else "never"
        title = f"{incident.title}, step {incident.step}"
        seen = since(incident, incident.detected_at)
        rows.append(f"{title:<26}{seen:>14}{again:>22}{incident.steps_redone:>14}")
        said = f"{incident.rung}: {incident.reason}" if incident.reason else incident.rung
        rows += textwrap.wrap(said, 76, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(rows)


def since(incident: Incident, time: float | None) -> str:
    return "never" if time is None else duration(time - incident.fault_at)


def run_demo(args: argparse.Namespace, out: Path) -> list[str]:
    begin = time.monotonic()
    third = args.steps // 4
    faulted = Run(folder=out / "faulted", steps=args.steps)
    say(f"1. Training with three faults: {args.steps} steps, {NODES} nodes, {SPARES} spare")
    faulted.train([a_rank(third, 3), a_node(2 * third, 4), the_master(3 * third)])
    say("2. The same training, undisturbed")
    reference = Run(folder=out / "reference", steps=args.steps)
    reference.train([])
    seconds = time.monotonic() - begin

    digests = (faulted.digest.read_text().strip(), reference.digest.read_text().strip())
    story = faulted.story()
    wrong = check(story, digests)
    counts = (faulted.count(), reference.count())
    wrong += check_samples(*counts)
    if seconds > args.limit:
        wrong.append(f"it took {seconds:.0f} s, more than the promised {args.limit} s")
    say("\n" + table(story) + "\n" + samples_row(*counts) + "\n")
    equal = "equal" if digests[0] == digests[1] else "DIFFERENT"
    say(f"final weights, with three faults  sha256 {digests[0]}")
    say(f"final weights, undisturbed        sha256 {digests[1]}   {equal}")
    redone = sum(incident.steps_redone for incident in story.incidents)
    title = f"{args.steps} steps, 3 faults, {redone} steps done again, final weights bit-identical"
    picture = out / "timeline.svg"
    picture.write_text(render(story, title=title if not wrong else ""))
    say(f"goodput {100 * faulted.goodput:.1f} %, picture {show(str(picture))}, {seconds:.0f} s")
    if args.update_readme and not wrong:
        shutil.copyfile(picture, EXAMPLES.parent / "docs" / "images" / "timeline.svg")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Train through three faults and prove it.")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--limit", type=int, default=180, help="seconds that it may take")
    parser.add_argument("--out", type=Path, help="a new folder; default runs/demo-TIME")
    parser.add_argument(
        "--update-readme", action="store_true", help="also replace the README's picture"
    )
    args = parser.parse_args()
    out = args.out or Path("runs") / time.strftime("demo-%Y%m%d-%H%M%S")
    try:
        wrong = run_demo(args, out.resolve())
    except DemoError as failure:
        wrong = [str(failure)]
    except KeyboardInterrupt:
        return 130
    for words in wrong:
        say(f"demo failed: {words}")
    if not wrong:
        say("demo passed: every fault was survived and no bit was lost")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
