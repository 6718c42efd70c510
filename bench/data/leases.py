"""How fast samples are leased, and how soon leases come back: our real master, agent and clients.

    .venv/bin/python -m bench.data.leases --rounds 5 --peer VENV/bin/python

Eight worker processes take and acknowledge shards of one sample, through one agent: one request at
a time (lock-step), sixteen in flight, and in leases of many samples, whose acknowledgements are
journalled all the same. `take` is what a worker waits for one lease in lock-step, with all eight at
it; `alone` the same with one. `ended` is from SIGKILL of a worker to its lease at another one that
waits; `restart` is the longest that a worker waited for a lease while the master was killed and
came back. `--peer` is an interpreter that has dlrover 0.6.1: its sharding client against its own
local master, one task at a time, in turns.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.harness import Samples, machine

WORKERS = 8
SHARDS = 2_000_000_000  # more than any run takes
MODES = {
    "lock-step": {"ahead": 0, "lease": 1},
    "in flight": {"ahead": 16, "lease": 1},
    "leases": {"ahead": 1, "lease": 4096},
}


# ---- inside of the job ----


def reader(name: str, rank: int, *, ahead: int, lease: int, ordinals: int = SHARDS) -> Any:
    from paceline._native import LeaseOpen, LeaseReader

    work = LeaseOpen()
    work.name, work.terms, work.ordinals = name, "{}", ordinals
    work.rank, work.world_size = rank, WORKERS
    work.incarnation = time.time_ns() // 1_000_000
    work.lease_max = lease
    work.lease_first = min(lease, 64)
    return LeaseReader.open(os.environ["PACELINE_LEASE_SOCKET"], ahead, work)


def take(source: Any) -> tuple[int, int, int]:
    while True:
        what, lease, begin, end, text = source.take(0.5, True)
        if what == "lease":
            return lease, begin, end
        if what != "timeout":
            raise SystemExit(f"{what} {text}")


def work(name: str, rank: int, mode: str, seconds: float) -> None:
    source = reader(name, rank, **MODES[mode])
    lease, begin, end = take(source)  # connected; the others are starting
    source.ack(lease, end)
    sys.stdin.readline()
    until = time.perf_counter() + seconds
    shards, waits = 0, []
    while (now := time.perf_counter()) < until:
        lease, begin, end = take(source)
        waits.append(time.perf_counter() - now)
        source.ack(lease, end)
        shards += end - begin
    while source.flush(0.5)[0] == "timeout":
        pass
    waits.sort()
    print(json.dumps({"shards": shards, "p50": waits[len(waits) // 2],
                      "p99": waits[len(waits) * 99 // 100], "longest": waits[-1]}), flush=True)
    source.close()


def start(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, __file__, *words], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)


def run_mode(name: str, mode: str, seconds: float, during: Any = None,
             count: int = WORKERS) -> dict[str, float]:
    workers = [start("--work", name, mode, str(rank), str(seconds)) for rank in range(count)]
    time.sleep(1.5)  # all have taken one
    for one in workers:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    if during is not None:
        time.sleep(seconds / 3)
        during()
    told = [json.loads(one.communicate()[0]) for one in workers]
    return {"rate": sum(one["shards"] for one in told) / seconds,
            "p99": max(one["p99"] for one in told), "p50": max(one["p50"] for one in told),
            "longest": max(one["longest"] for one in told)}


def hold(name: str) -> None:
    source = reader(name, 0, ahead=0, lease=100, ordinals=100)
    for _ in range(100):
        what = source.take(0.2, False)[0]
        if what == "wait":
            break
    print("holds", flush=True)
    signal.pause()


def ended(name: str) -> float:
    """Seconds from a worker's death to its lease at the one that waits."""
    holder = start("--hold", name)
    assert holder.stdout is not None
    holder.stdout.readline()
    source = reader(name, 1, ahead=0, lease=100, ordinals=100)
    assert source.take(0.3, False)[0] == "wait"
    begin = time.perf_counter()
    holder.send_signal(signal.SIGKILL)
    take(source)
    took = time.perf_counter() - begin
    source.close()
    holder.wait()
    return took


def kill_master() -> None:
    card = json.loads((Path(os.environ["PACELINE_RUN_DIR"]) / "job.json").read_text())
    os.kill(card["master"]["pid"], signal.SIGKILL)


def inside(out: Path, rounds: int, seconds: float) -> None:
    with out.open("a") as file:
        for turn in range(rounds):
            found: dict[str, Any] = {m: run_mode(f"{m} {turn}", m, seconds) for m in MODES}
            found["alone"] = run_mode(f"alone {turn}", "lock-step", seconds, count=1)
            found["ended"] = ended(f"ended {turn}")
            found["restart"] = run_mode(f"restart {turn}", "lock-step", 6.0, kill_master)["longest"]
            file.write(json.dumps(found) + "\n")
            file.flush()


# ---- outside ----


def ours(rounds: int, seconds: float) -> list[dict[str, Any]]:
    binary = os.environ.get("PACELINE_BIN") or str(Path(sys.executable).parent / "paceline")
    with tempfile.TemporaryDirectory(prefix="leases-") as folder:
        out = Path(folder) / "out"
        command = [binary, "run", "--standalone", "--run-dir", f"{folder}/run", __file__,
                   "--inside", str(out), "--rounds", str(rounds), "--seconds", str(seconds)]
        env = {**os.environ, "PACELINE_RUNTIME_DIR": f"{folder}/rt"}
        subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        return [json.loads(line) for line in out.read_text().splitlines()]


def peer(python: str, seconds: float) -> dict[str, float]:
    script = Path(__file__).with_name("leases_peer.py")
    done = subprocess.run([python, str(script), str(WORKERS), str(seconds)], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def line(name: str, values: list[float], unit: str) -> None:
    print(f"{name:28} median {statistics.median(values):12,.2f} {unit:9}"
          f" min {min(values):12,.2f}  max {max(values):12,.2f}  n={len(values)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--peer", default="")
    parser.add_argument("--inside", type=Path)
    parser.add_argument("--work", nargs=4)
    parser.add_argument("--hold")
    given = parser.parse_args()
    if given.work:
        name, mode, rank, seconds = given.work
        return work(name, int(rank), mode, float(seconds))
    if given.hold:
        return hold(given.hold)
    if given.inside:
        return inside(given.inside, given.rounds, given.seconds)
    print(machine(), file=sys.stderr)
    samples = Samples("data_leases")
    rows: list[dict[str, Any]] = []
    peers: list[dict[str, float]] = []
    for _ in range(given.rounds):
        rows += ours(1, given.seconds)
        samples.add("ours", rows[-1]["lock-step"]["p99"], **rows[-1])
        if given.peer:
            peers.append(peer(given.peer, given.seconds))
            samples.add("dlrover", peers[-1]["p99"], **peers[-1])
    for mode in MODES:
        line(f"ours, {mode}", [row[mode]["rate"] for row in rows], "shards/s")
    line("ours, take p50", [row["lock-step"]["p50"] * 1e3 for row in rows], "ms")
    line("ours, take p99", [row["lock-step"]["p99"] * 1e3 for row in rows], "ms")
    line("ours, alone p50", [row["alone"]["p50"] * 1e3 for row in rows], "ms")
    line("ours, alone p99", [row["alone"]["p99"] * 1e3 for row in rows], "ms")
    line("ours, ended", [row["ended"] * 1e3 for row in rows], "ms")
    line("ours, restart", [row["restart"] * 1e3 for row in rows], "ms")
    if peers:
        line("dlrover 0.6.1, lock-step", [row["rate"] for row in peers], "shards/s")
        line("dlrover 0.6.1, get p99", [row["p99"] * 1e3 for row in peers], "ms")
    return None


if __name__ == "__main__":
    main()
