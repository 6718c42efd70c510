"""An object store that lets a job read and denies its writes: told at the first failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from job import SCRIPTS, Job, eventually

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
pytest.importorskip("moto", reason="S3 NOT TESTED: tools/setup.sh venv installs its server")

from object_store import BUCKET, ObjectStore
from store_proxy import StoreProxy

PLACE = f"s3://{BUCKET}/runs/gpt"


class ReadOnlyProxy(StoreProxy):
    """Credentials with the right to read and without that to write."""

    is_read_only = True

    def is_denied(self, method: str, path: str) -> bool:
        return self.is_read_only and method in ("PUT", "POST", "DELETE")


@pytest.fixture
def proxy() -> Iterator[ReadOnlyProxy]:
    store = ObjectStore()
    before = ReadOnlyProxy(store.url)
    yield before
    before.shutdown()
    store.stop()


def start(tmp_path: Path, proxy: ReadOnlyProxy, wait: str, *words: str, steps: int = 30) -> Job:
    job = Job(tmp_path, "denied").be_patient()
    job.env = {**job.env, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
               "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL_S3": proxy.url,
               "AWS_MAX_ATTEMPTS": "2", "PACELINE_TIMERS_STORAGE_WAIT": wait}
    job.start(["--standalone", "--nproc-per-node", "2"],
              [str(SCRIPTS / "flash.py"), "--checkpoint", PLACE, "--out", str(job.state),
               "--steps", str(steps), *words])
    return job


def refusals(job: Job) -> list[str]:
    return [line for line in job.stderr.splitlines() if "storage refuses step" in line]


def test_the_claim_tells_before_the_first_save(tmp_path: Path, proxy: ReadOnlyProxy) -> None:
    # It holds before its end, when a step is due.
    job = start(tmp_path, proxy, "2s", "--every", "1h", "--hold", "20")
    eventually(lambda: "storage refuses writes" in job.stderr or None, "it is told", job=job)
    assert "AccessDenied" in job.stderr
    assert not job.events("checkpoint_not_stored"), "nothing was due for storage yet"
    job.end()  # before its store


def test_writes_that_are_denied_are_told_at_the_first_one(
        tmp_path: Path, proxy: ReadOnlyProxy) -> None:
    job = start(tmp_path, proxy, "2s", "--every", "5", steps=100_000)
    job.until_event("checkpoint_not_stored")
    (job.state / "enough").touch()
    assert job.wait() == 11, job.stderr
    assert len(refusals(job)) == 1, f"told at once, and once:\n{job.stderr}"
    assert "AccessDenied" in refusals(job)[0]
    assert len(job.events("world_formed")) == 1
