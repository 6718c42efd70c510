"""A job by TF_CONFIG without TensorFlow: each task listens at its address and calls the others.

    tasks.py --dir DIR [--fail NAME]

A parameter server answers each line with its name. The chief and the workers call every server
again and again, wait while one is away, and end with 0 when DIR/go exists. Each process writes
DIR/TASK.starts (a line a start: pid and TF_CONFIG), and a worker DIR/TASK.steps (a byte a step).
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import threading
import time
from pathlib import Path


def serve(address: str, name: str) -> None:
    host, _, port = address.rpartition(":")
    server = socket.create_server((host.strip("[]"), int(port)))  # sets SO_REUSEADDR

    def answer(caller: socket.socket) -> None:
        with caller:
            caller.recv(64)
            caller.sendall(name.encode())

    def accept() -> None:
        while True:
            caller, _ = server.accept()
            threading.Thread(target=answer, args=[caller], daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def call(address: str, expected: str) -> bool:
    """Whether the task at the address answers; another task's answer is an error."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5) as server:
            server.sendall(b"?")
            told = server.recv(64).decode()
    except OSError:
        return False
    if told not in ("", expected):
        raise RuntimeError(f"{address} is {told}, not {expected}")
    return told == expected


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--fail", default="")
    options = parser.parse_args()
    config = json.loads(os.environ["TF_CONFIG"])
    kind, index = config["task"]["type"], config["task"]["index"]
    name = f"{kind}-{index}"
    assert name == os.environ["PACELINE_TASK"], os.environ["PACELINE_TASK"]
    with open(options.dir / f"{name}.starts", "a") as starts:
        starts.write(f"{os.getpid()} {os.environ['TF_CONFIG']}\n")
    print(f"{name} begins", flush=True)
    if name == options.fail:
        raise ValueError(f"{name} cannot read its input")
    if kind in config["cluster"]:
        serve(config["cluster"][kind][index], name)
    if kind == "ps":
        threading.Event().wait()  # as TensorFlow's servers, it never ends by itself
    servers = {f"ps-{i}": address for i, address in enumerate(config["cluster"].get("ps", []))}
    with open(options.dir / f"{name}.steps", "a") as steps:
        while not (options.dir / "go").exists():
            if all(call(address, server) for server, address in servers.items()):
                steps.write(".")
                steps.flush()
            time.sleep(0.02)
    print(f"{name} is done", flush=True)


if __name__ == "__main__":
    main()
