"""Memory of a running job's own processes: agent, master, launcher, starter and ranks.

    .venv/bin/python -m bench.runtime.memory --rounds 3

A job of 4 ranks runs until all of them have stepped and for some seconds more. Then the kernel is
asked: `anon` is RssAnon, the goal of the agent; `private` are pages that this process alone holds
and has written, `shared` what others hold as well. The starter and the ranks share what was
imported before the fork, so the starter's `private` is its cost beyond what the forks share. Pages
of files that only one process has touched (`file_alone`) are the page cache's and can be dropped.
"""

import statistics
import sys
import time
from pathlib import Path

from bench.harness import Job, Samples, descendants, finish, paceline, parser, prepare

RANKS = range(4)
MIB = 1024.0


def memory_of(pid: int) -> dict[str, float]:
    """MiB of a process, from its status and the sum of its mappings."""
    fields: dict[str, float] = {}
    for name in ("status", "smaps_rollup"):
        for line in Path(f"/proc/{pid}/{name}").read_text().splitlines():
            key, _, value = line.partition(":")
            if value.endswith(" kB"):
                fields[key] = int(value.split()[0]) / MIB
    return {
        "rss": fields["VmRSS"],
        "anon": fields["RssAnon"],
        "private": fields["Private_Dirty"],
        "file_alone": fields["Private_Clean"],
        "shared": fields["Shared_Clean"] + fields["Shared_Dirty"],
        "pss": fields["Pss"],
    }


def role_of(command: str) -> str | None:
    words = command.split()
    if "-m" in words and "paceline._starter" in words:
        return "starter"
    if not words or Path(words[0]).name != "paceline":
        return None
    return {"run": "launcher", "master": "master", "agent": "agent"}.get(words[1])


def processes_of(job: Job, ranks: dict[int, int]) -> dict[str, int]:
    """Role → pid. A rank has its starter's command line, so ranks are known by their pids."""
    found = {f"rank {rank}": pid for rank, pid in ranks.items()}
    for root in job.processes:
        for pid, command in {root.pid: "paceline run", **descendants(root.pid)}.items():
            role = role_of(command)
            if role is not None and pid not in ranks.values():
                found.setdefault(role, pid)
    return found


def main() -> None:
    options = parser("Memory of agent, master, launcher, starter and ranks.")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=10, help="how long the job trains first")
    args = options.parse_args()
    prepare()
    samples = Samples("memory")
    roles: list[str] = []
    system = paceline(args.bin, "--standalone", "--nproc-per-node", "4", "--run-dir", "{run_dir}")
    for _ in range(args.rounds):
        with Job([system], script_args=("--every", "20")) as job:
            first = job.first_steps(ranks=RANKS, after=job.started, within=180)
            if first is None:
                print(job.tail(), file=sys.stderr)
                raise SystemExit("the job did not start")
            time.sleep(args.seconds)
            found = processes_of(job, {rank: stamp.pid for rank, stamp in first.items()})
            roles = list(found)
            for role, pid in found.items():
                memory = {key: round(value, 1) for key, value in memory_of(pid).items()}
                samples.add(role, None, unit="MiB", **memory)
    finish()
    parts: list[str] = []
    for role in sorted(roles):
        rows = [row for row in samples.rows if row["system"] == role]
        middle = {key: statistics.median(row[key] for row in rows) for key in ("anon", "private")}
        parts.append(f"{role} anon {middle['anon']:.1f} private {middle['private']:.1f} MiB")
    print("memory: " + " | ".join(parts))


if __name__ == "__main__":
    main()
