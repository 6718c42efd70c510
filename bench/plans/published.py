"""How near are predicted steps to those that others published?

    make wheel
    .venv/bin/python -m bench.plans.published

Each row is a training that its authors describe: model, devices, batch, plan and speed. `paceline
plan --only` predicts a step of that plan, with the profile of the framework that ran it. Three
numbers were fitted: to table T1, an A100's share of its peak and the bytes that fused operations
move, and to T3 an H100's share. All other tables are predicted as they are. A line says the mean
absolute error of a table, the skill over a constant utilisation (1 - our error ÷ the error of a
predictor that gives every row the median utilisation of the other tables), and the rank
correlation where the plan varies.

Rows that the planner cannot express, such as those of 8-bit floats, are not in the tables;
README.md says which. Then, for some tables, the step of our best plan for the same model, devices
and batch, divided by the published step.
"""

import json
import math
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness import BENCH, Samples, machine
from bench.plans.published_tables import PEAKS, TABLES, Row

VARIED = ("T2", "T10")  # tables in which the plan varies
BEST = ("T1", "T3", "T4", "T7")  # tables for which our own best plan is looked for


@dataclass(frozen=True, slots=True)
class Held:
    """A row beside its prediction. `step` None: no such plan, and why."""

    row: Row
    step: float | None
    why: str = ""
    needs: list[str] = field(default_factory=list[str])

    @property
    def ratio(self) -> float:
        return (self.step or math.nan) / self.row.seconds


def binary() -> str:
    """The installed one, else the one of the release build."""
    own = Path(sys.executable).parent / "paceline"
    return str(own if own.exists() else BENCH.parent / "build/release/src/paceline/cli/paceline")


def chunks(row: Row) -> str:
    """What our best plan may have: interleaved stages are only looked at if asked for."""
    return ",".join(f"vpp={n}" for n in (1, 2, 4, 8)) if row.chunks > 1 else ""


def plan(row: Row, folder: Path, only: str) -> Held:
    """The predicted step of the row's own plan, or of the best one."""
    model = folder / "config.json"
    model.write_text(json.dumps(row.model.config()))
    cluster = row.cluster()
    if not isinstance(cluster, str):
        (folder / "cluster.json").write_text(json.dumps(cluster))
        cluster = str(folder / "cluster.json")
    command = [binary(), "plan", "--json", "--model", str(model),
               "--cluster", cluster, "--global-batch", str(row.batch),
               "--network", str(row.network), "--profile", row.profile,
               *(["--only", only] if only else [])]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return Held(row, None, " ".join(done.stderr.split())[:200])
    found = json.loads(done.stdout)
    return Held(row, found["predicted"]["step"], needs=found.get("needs", []))


def flops_a_device(row: Row, seconds: float) -> float:
    """The model's arithmetic a second and device; the same count for all rows."""
    return row.model.flops(row.batch) / seconds / row.devices


def constant(row: Row, rows: list[Row]) -> float:
    """The step by the median utilisation of the rows of other sources."""
    others = [flops_a_device(one, one.seconds) / PEAKS[one.device]
              for one in rows if one.source != row.source]  # fmt: skip
    rate = statistics.median(others) * PEAKS[row.device]
    return row.model.flops(row.batch) / rate / row.devices


def error(ratios: list[float]) -> float:
    return statistics.mean(abs(one - 1) for one in ratios)


def rank_correlation(held: list[Held]) -> float:
    """Spearman's, of speeds a device."""
    def ranks(values: list[float]) -> list[float]:
        order = sorted(values)
        return [statistics.mean(n for n, one in enumerate(order) if one == value)
                for value in values]  # fmt: skip

    theirs = ranks([flops_a_device(one.row, one.row.seconds) for one in held])
    ours = ranks([flops_a_device(one.row, one.step or math.inf) for one in held])
    return statistics.correlation(theirs, ours)


def print_table(name: str, held: list[Held], rows: list[Row]) -> None:
    known = [one for one in held if one.step is not None]
    if not known:
        print(f"published {name}: no row has a plan")
        return
    mine = error([one.ratio for one in known])
    simple = error([constant(one.row, rows) / one.row.seconds for one in known])
    ratios = sorted(one.ratio for one in known)
    words = [f"published {name}: {len(known)} of {len(held)} rows have a plan",
             f"predicted ÷ published {ratios[0]:.2f} to {ratios[-1]:.2f}",
             f"mean absolute error {100 * mine:.0f} %",
             f"skill {1 - mine / simple:.2f} over a constant ({100 * simple:.0f} %)"]  # fmt: skip
    if name in VARIED and len(known) > 2:
        words.append(f"rank correlation {rank_correlation(known):.2f}")
    print(", ".join(words))


def print_best(name: str, best: list[Held], samples: Samples) -> None:
    for one in best:
        if one.step is not None:
            samples.add("best", one.step, table=name, row=one.row.told(),
                        published=one.row.seconds)  # fmt: skip
    ratios = [f"{one.ratio:.2f}" for one in best]
    print(f"published {name}: our best plan ÷ published, row by row: {', '.join(ratios)}")


def main() -> None:
    print(machine(), file=sys.stderr)
    rows = [row for table in TABLES.values() for row in table]
    samples = Samples("plan_published")
    everything: list[Held] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, table in TABLES.items():
            held = [plan(row, Path(folder), row.only()) for row in table]
            everything += [one for one in held if one.step is not None]
            for one in held:
                told = one.row.told()
                if one.step is None:
                    print(f"  {name} {told}: {one.why}")
                    continue
                samples.add("predicted", one.step, table=name, row=told,
                            published=one.row.seconds, needs=one.needs)  # fmt: skip
                print(f"  {name} {told}: {one.step:.3g} s, published {one.row.seconds:.3g} s, "
                      f"{one.ratio:.2f}")  # fmt: skip
            print_table(name, held, rows)
            if name in BEST:
                print_best(name, [plan(row, Path(folder), chunks(row)) for row in table], samples)
    ratios = [one.ratio for one in everything]
    simple = [constant(one.row, rows) / one.row.seconds for one in everything]
    skill = 1 - error(ratios) / error(simple)
    print(f"published: {len(everything)} of {len(rows)} rows, mean absolute error "
          f"{100 * error(ratios):.0f} %, skill {skill:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
