"""Draws curves from the raw samples: `uv run --with matplotlib python -m bench.curves`.

Every sample of bench/raw is drawn, of each run that is kept there, and nothing is smoothed. The
same samples give the same files: bench/curves/*.svg.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl  # pyright: ignore[reportMissingImports]
from matplotlib import pyplot, ticker  # pyright: ignore[reportMissingImports]

from bench.harness import BENCH

PLACE = BENCH / "curves"
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # told apart by the colour-blind, too


def samples(question: str, system: str) -> list[float | None]:
    lines = (BENCH / "raw" / f"{question}.jsonl").read_text().splitlines()
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [row["seconds"] for row in rows if row["system"] == system]


def draw_shares(name: str, question: str, systems: Sequence[str], label: str) -> None:
    """For each time, the share of samples that took at most so long."""
    figure, axes = pyplot.subplots(figsize=(7, 2.8))
    for system, color in zip(systems, COLORS, strict=False):
        found = samples(question, system)
        times = sorted(value for value in found if value is not None)
        shares = [100 * (i + 1) / len(found) for i in range(len(times))]
        axes.step(times, shares, where="post", color=color, label=f"{system} (n {len(found)})")
    axes.set(xlabel=label, ylabel="% of samples", ylim=(0, 103))
    scale_by_tens(axes)
    finish(name, figure, axes)


def draw_samples(
    name: str, question: str, systems: dict[str, str], label: str, *, by_tens: bool
) -> None:
    """A row for each system, and a dot for each sample; `systems` has the name that is shown."""
    figure, axes = pyplot.subplots(figsize=(7, 0.45 * len(systems) + 0.9))
    for row, (system, color) in enumerate(zip(systems, COLORS * 3, strict=False)):
        times = [value for value in samples(question, system) if value is not None]
        axes.plot(times, [row] * len(times), "o", color=color, alpha=0.6, markersize=5)
    axes.set(xlabel=label, yticks=range(len(systems)), yticklabels=list(systems.values()),
             ylim=(len(systems) - 0.5, -0.5))  # fmt: skip
    if by_tens:
        scale_by_tens(axes)
    else:
        axes.set_xlim(left=0)
    finish(name, figure, axes)


def scale_by_tens(axes: Any) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")


def finish(name: str, figure: Any, axes: Any) -> None:
    axes.grid(visible=True, which="major", color="#dddddd")
    axes.set_axisbelow(True)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center", frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(PLACE / f"{name}.svg", metadata={"Date": None})


def main() -> None:
    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "paceline", "font.size": 9})
    PLACE.mkdir(exist_ok=True)
    draw_shares("recovery", "recovery", ("paceline", "torchrun own store"),
                "seconds from the kill of a rank until all ranks step again")  # fmt: skip
    draw_samples("launch", "launch",
                 {"paceline first": "first job on a machine", "paceline again": "a second job",
                  "paceline warm": "with a kept starter", "torchrun": "torchrun"},
                 "seconds from the command to the first step", by_tens=True)  # fmt: skip
    draw_samples("agents", "agents",
                 {"1000 direct beats": "1,000 agents", "10000 direct beats": "10,000 agents",
                  "10000 shared 16 beats": "10,000 behind 16 connections",
                  "10000 shared 15 relays 1 beats": "10,000 behind 15 connections and a relay"},
                 "cores that the master uses for heartbeats", by_tens=False)  # fmt: skip


if __name__ == "__main__":
    main()
