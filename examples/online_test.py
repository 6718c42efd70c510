"""From an event to a served prediction: training, serving and events are processes of their own."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parent
USER, AD, OTHER = 17, 7, 8


class Online:
    """The processes of the example in one directory."""

    def __init__(self, directory: Path) -> None:
        self.events, self.serve = directory / "events", directory / "serve"
        self.processes: list[subprocess.Popen[str]] = []
        self.address = ""

    def start(self, script: str, *args: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / script), *map(str, args)], text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE)
        self.processes.append(process)
        return process

    def train(self) -> subprocess.Popen[str]:
        return self.start("online_train.py", "--events", self.events, "--serve", self.serve,
                          "--every", 0.1)

    def write(self, ad: int, *, click: bool) -> None:
        from online_events import write  # beside this file; needs pyarrow

        event = {"user": USER, "seen": [1, 2, 3], "ad": ad, "click": click}
        write(self.events, [event] * 20)

    def answer(self) -> dict[str, Any]:
        """Of the server. Empty as long as there is no version."""
        body = json.dumps({"user": USER, "seen": [1, 2, 3], "ads": [AD, OTHER]}).encode()
        try:
            with urllib.request.urlopen(self.address, body, timeout=60) as found:
                return json.loads(found.read())
        except urllib.error.HTTPError as error:
            assert error.code == 503, error.read()
            return {}

    def until(self, wanted: Any, what: str) -> dict[str, Any]:
        until = time.monotonic() + 300
        while time.monotonic() < until:
            assert all(one.poll() in (None, 0, -signal.SIGKILL) for one in self.processes)
            if (found := self.answer()) and wanted(found):
                return found
            if found:
                self.write(AD, click=True)
                self.write(OTHER, click=False)
            time.sleep(0.1)
        raise AssertionError(f"{what}: {self.answer()}")

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture
def online(tmp_path: Path) -> Iterator[Online]:
    made = Online(tmp_path)
    yield made
    made.end()


def test_events_change_what_is_served_and_serving_outlives_the_training(online: Online):
    for needed in ("torch", "onnx", "onnxruntime", "pyarrow"):
        pytest.importorskip(needed, reason=f"the example needs {needed}")
    server = online.start("online_serve.py", "--serve", online.serve, "--port", 0)
    assert server.stdout is not None
    online.address = server.stdout.readline().split()[-1]
    assert online.answer() == {}, "nothing is published yet"
    training = online.train()
    online.write(AD, click=True)
    first = online.until(lambda one: one["scores"][0] != one["scores"][1],
                         "the first events are served")
    later = online.until(lambda one: one["scores"][0] > 0.8 and one["scores"][1] < 0.2,
                         "a clicked ad scores high, and another one low")
    assert later["version"] > first["version"]
    training.kill()
    training.wait()
    assert online.answer()["scores"] == pytest.approx(online.answer()["scores"])
    assert online.answer()["version"] >= later["version"]


class Published:
    """A model that is trained and published in this process; each version has other answers."""

    def __init__(self, directory: Path) -> None:
        import paceline.embedding as pe
        import torch
        from click_model import Click  # beside this file
        from paceline.torch import ElasticDataset, LeasedLoader

        torch.manual_seed(0)
        self._torch = torch
        self._model = Click(dim=8)
        self._opt = pe.Optimizer(self._model, dense=pe.SGD(0.3))
        self._publish = pe.Publish(directory, self._opt, every=86_400.0)
        self._directory = directory
        loader = LeasedLoader(ElasticDataset(range(10**6), seed=1), name="steps", batch_size=1)
        self._steps = iter(loader)  # tables want to know which batch a step is of
        self.answers: dict[int, list[float]] = {}  # by version

    def next(self) -> int:
        """Trains a step, publishes a version, and returns its number."""
        next(self._steps)
        ads = self._torch.tensor([AD, OTHER])
        users, seen = self._torch.full((2,), USER), self._torch.tensor([[1, 2, 3]] * 2)
        # Every row and weight of the answer changes in each step, now up and now down, and never
        # comes back to where it was.
        liking = self._model(users, seen, ads)
        (liking * self._torch.tensor([1.0, -1.0]) * math.cos(len(self.answers))).sum().backward()
        self._opt.step()
        self._publish.now()
        number = json.loads((self._directory / "CURRENT").read_text())["version"]
        with self._torch.no_grad():
            self._model.eval()
            self.answers[number] = self._torch.sigmoid(self._model(users, seen, ads)).tolist()
            self._model.train()
        return number


def test_each_answer_is_of_one_version_while_versions_change(online: Online):
    for needed in ("torch", "onnx", "onnxruntime"):
        pytest.importorskip(needed, reason=f"the example needs {needed}")
    published = Published(online.serve)
    published.next()
    server = online.start("online_serve.py", "--serve", online.serve, "--port", 0)
    assert server.stdout is not None
    online.address = server.stdout.readline().split()[-1]
    answers: list[dict[str, Any]] = []
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            answers.append(online.answer())

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for thread in asking:
        thread.start()
    try:
        until = time.monotonic() + 300
        while len({one["version"] for one in answers}) < 10:
            assert time.monotonic() < until, "the server does not follow"
            assert server.poll() is None
            published.next()
            time.sleep(0.01)
    finally:
        is_over.set()
        for thread in asking:
            thread.join()
    wrong = [one for one in answers
             if one["scores"] != pytest.approx(published.answers[one["version"]], abs=1e-5)]
    assert wrong == []
    # The comparison can find an answer of two versions, because versions have other answers.
    served = {one["version"] for one in answers}
    assert len({round(published.answers[one][0], 4) for one in served}) > len(served) / 2
