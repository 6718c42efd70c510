"""The routes of a job's live page, on a real master: link, session, data, feed."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest
from job import DEADLINE_S, ROOT, Job, eventually
from jsonschema import Draft202012Validator

TWO = ["--standalone", "--nproc-per-node", "2"]
PAGE = json.loads((ROOT / "docs" / "schemas" / "page.json").read_text())
OPEN = json.loads((ROOT / "docs" / "schemas" / "open.json").read_text())


def link(job: Job) -> tuple[str, str]:
    """Address and code of a new link."""
    done = job.command("open", "--json", "--job", str(job.run_dir))
    assert done.returncode == 0, done
    told = json.loads(done.stdout)
    Draft202012Validator(OPEN).validate(told)
    assert told["forward"] is None
    parts = urlsplit(told["url"])
    assert parts.path == "/" and parts.fragment.startswith("code=")
    return parts.netloc, parts.fragment.removeprefix("code=")


def ask(address: str, path: str, *, token: str = "", host: str = "",
        body: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection(address, timeout=DEADLINE_S)
    headers = {"Host": host or address, "Authorization": f"Bearer {token}"}
    connection.request("GET" if body is None else "POST", path, body=body, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def session_of(job: Job) -> tuple[str, str]:
    address, code = link(job)
    status, text = ask(address, "/api/session", body=code)
    assert status == 200, text
    return address, json.loads(text)["session"]


def events(address: str, session: str, last: int) -> Iterator[dict[str, Any]]:
    """Of the feed, from the one after `last` on."""
    connection = http.client.HTTPConnection(address, timeout=DEADLINE_S)
    connection.request("GET", "/api/feed", headers={
        "Authorization": f"Bearer {session}", "Last-Event-ID": str(last)})
    answer = connection.getresponse()
    assert answer.status == 200
    event: dict[str, Any] = {}
    with closing(connection):
        while line := answer.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if line != "\n":
                event[name] = json.loads(value) if name == "data" else value
            elif event.get("event"):
                yield event
                event = {}


@pytest.fixture
def training(job: Job) -> Job:
    job.be_patient().start_steps(TWO, steps=100_000)
    job.until_stepping(2)
    return job


def test_a_link_works_once_and_for_the_page_alone(training: Job) -> None:
    address, code = link(training)
    job_id = (training.status() or {})["job"]["id"]
    status, shell = ask(address, "/")
    assert status == 200 and "<script" in shell and job_id not in shell
    assert ask(address, "/", host="evil.test")[0] == 403
    assert ask(address, "/api/session", body=code, host="evil.test")[0] == 403
    assert ask(address, "/api/session", body="0" * 64)[0] == 403
    status, text = ask(address, "/api/session", body=code)
    assert status == 200
    status, refusal = ask(address, "/api/session", body=code)
    assert status == 403 and "used already" in refusal
    session = json.loads(text)["session"]
    for path in ("/api/page", "/api/feed"):
        assert ask(address, path)[0] == 401
        assert ask(address, path, token=code)[0] == 401
        assert ask(address, path, token=session, host="evil.test")[0] == 403
    reading = (training.run_dir / "reading_token").read_text().strip()
    for path in ("/metrics", "/healthz"):
        assert ask(address, path)[0] == 401
        for reader in (session, reading, token(training)):
            assert ask(address, path, token=reader)[0] == 200
    assert "paceline_step" in ask(address, "/metrics", token=reading)[1]
    assert ask(address, "/api/page", token=reading)[0] == 200
    status, text = ask(address, "/api/page", token=session)
    assert status == 200
    page = json.loads(text)
    Draft202012Validator(PAGE).validate(page)
    assert page["is_live"] and page["seq"] > 0 and page["status"]["job"]["step"] >= 0


def token(job: Job) -> str:
    return (job.run_dir / "token").read_text().strip()


def test_the_feed_loses_and_doubles_nothing(training: Job) -> None:
    address, session = session_of(training)
    seen = json.loads(ask(address, "/api/page", token=session)[1])["seq"]
    os.kill(training.ranks()[1]["pid"], signal.SIGKILL)
    told: list[dict[str, Any]] = []
    kinds: list[str] = []
    for event in events(address, session, seen):
        if event["event"] == "record":
            told.append(event["data"] | {"id": int(event["id"])})
            kinds.append(told[-1]["kind"])
        if "rank_failed" in kinds and kinds[-1] == "world_running":
            break
    numbers = [*range(seen + 1, seen + len(told) + 1)]
    assert [one["seq"] for one in told] == [one["id"] for one in told] == numbers
    assert "SIGKILL" in told[kinds.index("rank_failed")]["sentence"]
    # A reader that comes back, to this master and to the next one.
    again = events(address, session, seen + 1)
    assert [next_record(again)["id"] for _ in range(3)] == [str(seen + i) for i in (2, 3, 4)]
    before = training.card["master"]["pid"]
    os.kill(before, signal.SIGKILL)
    eventually(lambda: training.card["master"]["pid"] != before, "the next master", job=training)
    address = training.card["master"]["http"]
    later = events(address, session, seen + 1)
    assert [next_record(later)["id"] for _ in range(3)] == [str(seen + i) for i in (2, 3, 4)]


def next_record(feed: Iterator[dict[str, Any]]) -> dict[str, Any]:
    return next(event for event in feed if event["event"] == "record")


def test_a_job_that_has_ended_serves_no_page(job: Job) -> None:
    job.start_steps(TWO, steps=1)
    assert job.wait() == 0
    done = job.command("open", "--job", str(job.run_dir))
    assert done.returncode == 3 and "paceline report" in done.stderr, done


def test_a_master_that_does_not_answer_is_told_in_four_parts(training: Job) -> None:
    master = training.card["master"]["pid"]
    os.kill(master, signal.SIGSTOP)
    try:
        done = training.command("open", "--job", str(training.run_dir))
    finally:
        os.kill(master, signal.SIGCONT)
    assert done.returncode == 3 and f"kill -CONT {master}" in done.stderr, done
