"""What a test asks of a pod, read from what the API server says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

JsonDict = dict[str, Any]


@dataclass(frozen=True)
class Pod:
    name: str
    uid: str
    namespace: str
    node: str  # "" until the scheduler has placed it
    address: str  # "" until its network is there
    phase: str  # Pending, Running, Succeeded, Failed, Unknown
    is_ready: bool
    is_terminating: bool
    restart_count: int  # of its first container, like all that follows
    container_id: str  # "" until the container exists
    exit_code: int | None  # None while it runs
    reason: str  # why it waits or has ended: CrashLoopBackOff, OOMKilled, Completed, Evicted


def pod_from(item: JsonDict) -> Pod:
    status = item["status"]
    container = next(iter(status.get("containerStatuses", [])), {})
    state = container.get("state", {})
    ended = state.get("terminated", {})
    reason = status.get("reason") or ended.get("reason") or state.get("waiting", {}).get("reason")
    conditions = {condition["type"]: condition["status"]
                  for condition in status.get("conditions", [])}
    return Pod(
        name=item["metadata"]["name"],
        uid=item["metadata"]["uid"],
        namespace=item["metadata"]["namespace"],
        node=item["spec"].get("nodeName", ""),
        address=status.get("podIP", ""),
        phase=status.get("phase", "Pending"),
        is_ready=conditions.get("Ready") == "True",
        is_terminating="deletionTimestamp" in item["metadata"],
        restart_count=container.get("restartCount", 0),
        container_id=container.get("containerID", "").removeprefix("containerd://"),
        exit_code=ended.get("exitCode"),
        reason=reason or "")
