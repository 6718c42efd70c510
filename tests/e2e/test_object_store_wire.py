"""Row 33: bytes of an object store that change on their way. A proxy of the test's flips them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from job import SCRIPTS, Job

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
pytest.importorskip("moto", reason="S3 NOT TESTED: tools/setup.sh venv installs its server")

from object_store import BUCKET, ObjectStore
from store_proxy import StoreProxy

PLACE = f"s3://{BUCKET}/runs/gpt"
LARGE = 100_000


class FlippingProxy(StoreProxy):
    """Flips a bit in `flips` large answers, each to another request; without `flips` in all."""

    def __init__(self, url: str, flips: int | None = None) -> None:
        super().__init__(url)
        self.flips = flips
        self.spoiled: list[str] = []  # requests whose answer was changed

    def changed(self, request: str, body: bytes) -> bytes:
        with self.lock:
            is_enough = self.flips is not None and (
                len(self.spoiled) >= self.flips or request in self.spoiled)
            if len(body) < LARGE or is_enough:
                return body
            self.spoiled.append(request)
        flipped = bytearray(body)
        flipped[len(body) // 2] ^= 1
        return bytes(flipped)


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    server = ObjectStore()
    yield server
    server.stop()


@pytest.fixture
def make_s3_job(tmp_path: Path, store: ObjectStore) -> Callable[[str], Job]:
    return lambda name: Job(tmp_path, name, env=store.environment()).be_patient()


def run(job: Job, steps: int) -> None:
    job.start(["--standalone", "--nproc-per-node", "2"],
              [str(SCRIPTS / "flash.py"), "--checkpoint", PLACE, "--out", str(job.state),
               "--steps", str(steps), "--cut"])
    assert job.wait() == 0, job.stderr


def test_row_33_a_bit_that_flips_on_its_way_is_asked_for_again(
    make_s3_job: Callable[[str], Job], store: ObjectStore
) -> None:
    run(make_s3_job("first"), 30)
    proxy = FlippingProxy(store.url, flips=2)
    second = make_s3_job("second")
    second.env = {**second.env, "AWS_ENDPOINT_URL_S3": proxy.url}
    run(second, 40)
    assert len(proxy.spoiled) == 2, "it did flip"
    assert not second.events("checkpoint_damaged")
    why = (second.state / "restored-0").read_text()
    assert " 30 " in why and "step-29-g1" in why, why
    for rank in range(2):
        assert float((second.state / f"final-{rank}").read_text()) == 40.0
    proxy.shutdown()


def test_row_33_what_comes_wrongly_again_and_again_is_never_believed(
    make_s3_job: Callable[[str], Job], store: ObjectStore
) -> None:
    first = make_s3_job("first")
    run(first, 30)
    proxy = FlippingProxy(store.url)
    first.env = {**first.env, "AWS_ENDPOINT_URL_S3": proxy.url}
    found = first.command("ckpt", "verify", PLACE)
    assert found.returncode == 5 and "not those that were saved" in found.stdout, found.stdout
    assert len(proxy.spoiled) > 1, os.linesep.join(proxy.spoiled)
    proxy.shutdown()
    first.env = {**first.env, **store.environment()}
    assert first.command("ckpt", "verify", PLACE).returncode == 0, "it is whole in the store"
