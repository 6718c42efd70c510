"""A click model that learns from events as they come, and is served while it learns.

    python examples/online_train.py --events runs/events --serve runs/serve
    python examples/online_serve.py --serve runs/serve --port 8080
    python examples/online_events.py --events runs/events --ad 7 --user 17

Or on table servers: paceline run --workers 2 --ps 2 --tables runs/ctr examples/online_train.py …
An event is a row of a Parquet file: a user, the last three ads that the user saw, an ad, and
whether it was clicked.
"""

import argparse
from pathlib import Path
from typing import Any

import paceline.embedding as pe
import torch
from click_model import Click
from paceline.torch import LeasedLoader, Stream

import paceline as pl


def decode(row: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    user, seen, ad = (torch.tensor(row[name]) for name in ("user", "seen", "ad"))
    return user, seen, ad, torch.tensor(float(row["click"]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=Path, required=True, help="a folder of Parquet files")
    parser.add_argument("--url", help="another stream, as kafka://host:9092/clicks")
    parser.add_argument("--serve", required=True, help="a folder for the versions")
    parser.add_argument("--every", type=float, default=0.5, help="seconds between two versions")
    args = parser.parse_args()
    torch.manual_seed(0)
    args.events.mkdir(parents=True, exist_ok=True)
    model = Click(dim=8)
    opt = pe.Optimizer(model, dense=pe.Adam(2e-3))
    pe.Publish(args.serve, opt, every=args.every)
    url = args.url or f"files://{args.events.absolute()}/*.parquet"
    events = Stream(url, decode=decode, name="events")
    loader = LeasedLoader(events, batch_size=256, wait=0.2)
    for step, (user, seen, ad, click) in enumerate(loader, 1):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(user, seen, ad), click)
        loss.backward()
        opt.step()
        pl.step(step, loss=loss.item())


if __name__ == "__main__":
    main()
