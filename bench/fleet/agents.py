"""A real master with 1,000 and 10,000 agents: joining, heartbeats, one member replaced.

    ninja -C build/release paceline bench_agents
    python3 -m bench.fleet.agents --rounds 5

The agents are light (fleet.cc): one thread, real sockets, HTTP/2 by hand, no ranks. `direct`
gives each agent a socket of its own; `shared C` carries all streams over C sockets, as relays
would; `relays R` gives each agent a socket of its own to one of R real relays, each a process;
`shared C relays R` does so for an even share of the agents, and C sockets carry all others.
Times include the clients' and the relays' work on the same cores; the CPU time of the master and
that of the relays are read from /proc/PID/stat and reported apart.
"""

import argparse
import json
import os
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import BENCH, Samples, machine

BUILD = BENCH.parent / "build" / "release"


@dataclass(frozen=True, kw_only=True)
class Case:
    agents: int
    connections: int  # 0: a socket for each agent
    relays: int = 0  # 0: to the master itself

    @property
    def relayed(self) -> int:
        if self.relays == 0:
            return 0
        everyone = self.agents + 1  # the spare
        return everyone * self.relays // (self.connections + self.relays)

    @property
    def name(self) -> str:
        way = "direct" if self.connections == 0 else f"shared {self.connections}"
        if self.relays:
            way = f"{way} relays {self.relays}" if self.connections else f"relays {self.relays}"
        return f"{self.agents} {way}"


def make_run_dir(case: Case, *, spares: int = 1) -> Path:
    run_dir = Path(tempfile.mkdtemp(prefix="paceline-bench-agents-"))
    job = {"jobId": "bench", "nodesMin": case.agents, "nodesMax": case.agents, "spares": spares}
    spec = json.dumps({"schema": "paceline.spec/1", "job": job})
    for name, text in (("spec.json", spec), ("token", secrets.token_hex(32) + "\n")):
        (run_dir / name).touch(mode=0o600)
        (run_dir / name).write_text(text)
    return run_dir


def wait_for_address(run_dir: Path, master: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and master.poll() is None:
        try:
            told = json.loads((run_dir / "job.json").read_text())["master"]
            if told["pid"] == master.pid:
                return str(told["addr"])
        except (OSError, ValueError, KeyError):
            pass
        time.sleep(0.005)
    raise SystemExit((run_dir / "master.log").read_text()[-2000:])


def start_relay(build: Path, address: str, token: Path) -> subprocess.Popen[bytes]:
    command = [str(build / "bench" / "bench_relay"), address, str(token)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def port_of(relay: subprocess.Popen[bytes]) -> str:
    assert relay.stdout is not None
    return relay.stdout.readline().decode().strip()


def cpu_of(pid: int) -> float:
    """User and system time of a process, ended threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def measure(case: Case, *, build: Path, ranks: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Each phase's line with the master's CPU seconds and peak memory when it came."""
    run_dir = make_run_dir(case)
    binary = build / "src" / "paceline" / "cli" / "paceline"
    with (run_dir / "master.log").open("wb") as log:
        command = [str(binary), "master", "--run-dir", str(run_dir), "--listen", "127.0.0.1:0"]
        master = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    phases: dict[str, dict[str, Any]] = {}
    relays: list[subprocess.Popen[bytes]] = []
    try:
        address = wait_for_address(run_dir, master)
        token = run_dir / "token"
        relays = [start_relay(build, address, token) for _ in range(case.relays)]
        ports = [port_of(relay) for relay in relays]
        before = cpu_of(master.pid)
        numbers = [case.agents, case.connections, ranks, seconds]
        command = [str(build / "bench" / "bench_agents"), address, str(token)]
        command += [*map(str, numbers), str(case.relayed), *ports]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as fleet:
            assert fleet.stdout is not None
            for line in fleet.stdout:
                phase = json.loads(line)
                phase["master_cpu"] = cpu_of(master.pid) - before
                phase["relay_cpu"] = sum(cpu_of(relay.pid) for relay in relays)
                phase["rss_mib"] = peak_rss_mib(master.pid)
                phases[phase["phase"]] = phase
        if fleet.returncode != 0 or "failed" in phases:
            print((run_dir / "master.log").read_text()[-1500:], file=sys.stderr)
    finally:
        for process in (*relays, master):
            process.send_signal(signal.SIGKILL)
            process.wait()
        shutil.rmtree(run_dir, ignore_errors=True)
    return phases


def report(samples: Samples, case: Case, phases: dict[str, dict[str, Any]]) -> None:
    joined = phases.get("joined")
    if joined is None:
        samples.add(f"{case.name} join", None)
        return
    cpu = {"master_cpu": joined["master_cpu"], "relay_cpu": joined["relay_cpu"]}
    samples.add(f"{case.name} join", joined["seconds"], **cpu)
    begin, end = phases.get("beats_begin"), phases.get("beats_end")
    if begin is not None and end is not None:
        cores = (end["master_cpu"] - begin["master_cpu"]) / end["seconds"]
        rate = (end["beats"] - begin["beats"]) / end["seconds"]
        samples.add(
            f"{case.name} beats", cores, per_second=rate, late_max=end["late_max"], unit="cores"
        )
    replaced = phases.get("replaced")
    samples.add(
        f"{case.name} replace",
        replaced["seconds"] if replaced else None,
        rss_mib=(replaced or joined)["rss_mib"],
    )


def line_of(samples: Samples, case: Case) -> str:
    parts: list[str] = []
    for what, unit in (("join", "s"), ("beats", "cores"), ("replace", "s")):
        values = samples.of(f"{case.name} {what}")
        if not values:
            parts.append(f"{what} none")
            continue
        parts.append(f"{what} p50 {statistics.median(values):.3g} max {max(values):.3g} {unit}")
    rss = [row["rss_mib"] for row in samples.rows if row["system"] == f"{case.name} replace"]
    parts.append(f"rss {max(rss, default=0):.0f} MiB")
    return f"{case.name}: " + ", ".join(parts)


def main() -> None:
    options = argparse.ArgumentParser(description="A real master with thousands of agents.")
    options.add_argument("--build", type=Path, default=BUILD, help="build tree of both binaries")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=10, help="heartbeats are watched so long")
    options.add_argument("--ranks", type=int, default=1, help="of each agent, told in every beat")
    options.add_argument(
        "--cases",
        default="1000:0,10000:0,10000:16,10000:15:1",
        help="AGENTS:SOCKETS[:RELAYS],…; 0 sockets: one each",
    )
    args = options.parse_args()
    print(machine(), file=sys.stderr)
    numbers = [[*map(int, case.split(":")), 0][:3] for case in args.cases.split(",")]
    cases = [Case(agents=n, connections=lines, relays=relays) for n, lines, relays in numbers]
    samples = Samples("agents")
    for _ in range(args.rounds):
        for case in cases:
            phases = measure(case, build=args.build, ranks=args.ranks, seconds=args.seconds)
            report(samples, case, phases)
    print("agents: " + " | ".join(line_of(samples, case) for case in cases))


if __name__ == "__main__":
    main()
