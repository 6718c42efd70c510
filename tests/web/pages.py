"""Made pages: the data of a job in each state, as docs/schemas/page.json describes it."""

from __future__ import annotations

import copy
import json
import random
import re
import struct
from typing import Any

Data = dict[str, Any]

NOW = 1_790_000_000.0
CLASSES = [
    ("productive", "productive", "steps that count"),
    ("evaluation", "evaluation", "the model was in eval mode"),
    ("unproductive_checkpoint_save", "checkpoint stall", "the script stood still for a save"),
    ("data_loading_sync", "data wait", "the script waited for its loader"),
    ("straggler_wait", "straggler wait", "in collectives, longer than the rank that waited least"),
    ("wasted_progress", "redone", "steps that a failure cost"),
    ("detection", "detection", "until a failure was noticed"),
    ("hang", "hang", "ranks waited for one that stood still"),
    ("decision", "decision", "between two worlds"),
    ("waiting_for_nodes", "waiting", "for nodes to join"),
    ("program_startup", "first start", "until the first step"),
    ("infrastructure_recovery", "restart", "from a new world to its first step"),
    ("unproductive_checkpoint_restore", "restore", "a checkpoint was loaded"),
    ("compilation", "compile", "torch compiled the model"),
    ("stopping", "stopping", "until the end of the job"),
    ("spare", "spare", "nodes without a seat"),
    ("unknown", "unknown", "nobody told"),
]
TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 31, in <module>
    loss = model(batch)
ValueError: bad batch"""


def event(seq: int, at: float, kind: str, sentence: str) -> Data:
    return {"schema": "paceline.event/1", "seq": seq, "time": at, "kind": kind, "node": None,
            "rank": None, "generation": None, "step": None, "sentence": sentence, "causes": [],
            "details": {}}


def incident(seq: int, at: float, *, title: str, is_open: bool = False) -> Data:
    return {
        "schema": "paceline.why/1", "job": "llama8b-17a147", "seq": seq, "kind": "rank_failed",
        "sentence": title, "drill": None, "cause": seq,
        "evidence": [event(seq, at, "rank_failed", title)],
        "outcome": [event(seq + 1, at + 0.1, "world_ended", "world 1 ended: it lost a part"),
                    event(seq + 2, at + 0.2, "world_formed", "world 2 of 16 ranks formed")],
        "tried": [], "follow_ons": 1, "class": None, "cost_seconds": 2.9, "traceback": TRACEBACK,
        "now": "training goes on", "next": "nothing is to be done", "title": title, "at": at,
        "cost": "training again after 2.9 s; 3 steps are trained again", "verdict": None,
        "log": ["step 811 loss 2.31", "step 812 loss 2.30"], "text": f"{title}\n",
        "rank_seconds": 46.4, "is_open": is_open, "lasted_seconds": None,
    }


def running() -> Data:
    """A job of four hosts that has trained for 40 minutes with one incident."""
    start = NOW - 1800
    died = NOW - 900
    rank_seconds = dict.fromkeys((name for name, _, _ in CLASSES), 0.0)
    rank_seconds |= {"productive": 35_600.0, "evaluation": 700.0, "data_loading_sync": 290.0,
                     "unproductive_checkpoint_save": 150.0, "straggler_wait": 60.0,
                     "wasted_progress": 240.0, "detection": 32.0,
                     "decision": 4.0, "waiting_for_nodes": 160.0, "program_startup": 360.0,
                     "infrastructure_recovery": 150.0, "unproductive_checkpoint_restore": 30.0,
                     "compilation": 50.0, "spare": 900.0}
    stretches = [
        {"from": start, "until": died - 6, "class": "productive"},
        {"from": died - 6, "until": died, "class": "detection"},
        {"from": died, "until": died + 2, "class": "decision"},
        {"from": died + 2, "until": died + 40, "class": "infrastructure_recovery"},
        {"from": died + 40, "until": died + 100, "class": "wasted_progress"},
        {"from": died + 100, "until": NOW, "class": "productive"},
    ]
    seat = {"from": start, "until": NOW, "is_seated": True}
    lanes: list[Data] = [{"node": f"node{i}", "parts": [seat]} for i in range(3)]
    lanes.append({"node": "node3", "parts": [seat | {"until": died}]})
    lanes.append({"node": "spare0", "parts": [seat | {"until": died + 2, "is_seated": False},
                                              seat | {"from": died + 2}]})
    return {
        "schema": "paceline.page/1", "job": "llama8b-17a147", "name": "llama8b", "made_at": NOW,
        "seq": 90, "data_at": NOW, "is_live": True, "state": "running",
        "sentence": "trains with 16 ranks on 4 nodes", "troubles": [],
        "status": {
            "schema": "paceline.status/1",
            "job": {"id": "llama8b-17a147", "name": "llama8b", "phase": "running",
                    "pending": "trains", "exit_code": None, "final_reason": "",
                    "age_seconds": 2400.0, "goodput": 0.971, "restarts": 1, "failures": 1,
                    "step": 15_200, "steps_per_second": 6.4, "since_step_seconds": 0.2,
                    "steps_total": 100_000, "loss": 2.3, "last_seq": 90, "excluded_hosts": [],
                    "links": []},
            "master": {"pid": 4242, "incarnation": 1, "journal": "ok"},
            "world": {"generation": 2, "size": 16, "number": 2},
            "checkpoints": {"directory": "/data/ckpt/llama8b", "memory_step": 15_190,
                            "storage_step": 15_000, "writing_step": None, "storage_bytes": 10,
                            "problem": "", "restored": "from memory", "restored_step": 8000,
                            "memory_restores": 1, "storage_restores": 0, "commits": 30,
                            "storage_age_seconds": 31.0},
            "slow": [], "hang": None, "plan": None, "nodes": []},
        "goodput": {"schema": "paceline.goodput/1", "job": "llama8b-17a147", "is_over": False,
                    "rank_seconds": rank_seconds, "divided_rank_seconds": 36_800.0,
                    "overcounted_rank_seconds": 0.0, "runtime": 0.939, "scheduling": 0.996,
                    "steps_executed": 8012, "steps_redone": 62, "mfu": 0.41,
                    "mfu_unknown_because": "", "incidents": []},
        "classes": [{"name": name, "words": words, "hint": hint} for name, words, hint in CLASSES],
        "seats": [{"node": name, "first_rank": 4 * i, "ranks": 4}
                  for i, name in enumerate(("node0", "node1", "node2", "spare0"))],
        "topology": {"tensor": 2, "stages": [list(range(8)), list(range(8, 16))]},
        "timeline": {"from": start, "until": NOW, "stretches": stretches, "lanes": lanes},
        "incidents": [incident(61, died, title="node3 was lost: it was silent for 6 s")],
    }


def ended(state: str, exit_code: int, sentence: str) -> Data:
    data = running()
    data |= {"state": state, "is_live": False, "sentence": sentence}
    data["status"]["job"] |= {"phase": "finished", "exit_code": exit_code,
                              "final_reason": sentence, "steps_per_second": None}
    data["goodput"]["is_over"] = True
    data["goodput"]["rank_seconds"]["stopping"] = 64.0
    return data


def failed() -> Data:
    data = ended("failed", 1, "the script fails at the same step each time: it was not restarted")
    cause = "rank 3 on node1 raised ValueError: bad batch (train.py:31), at step 15,200"
    data["incidents"].insert(0, incident(88, NOW - 8, title=cause))
    return data


def recovering() -> Data:
    data = running()
    data |= {"state": "waiting", "sentence": "waits for a node: 3 of 4 are there"}
    data["status"]["job"] |= {"phase": "waiting", "steps_per_second": None}
    data["incidents"].insert(0, incident(88, NOW - 60, is_open=True,
                                         title="node2 was lost: its host was rebooted"))
    data["timeline"]["stretches"][-1]["until"] = NOW - 60
    data["timeline"]["stretches"].append({"from": NOW - 60, "until": NOW,
                                          "class": "waiting_for_nodes"})
    return data


def nothing_yet() -> Data:
    data = running()
    data |= {"state": "waiting", "sentence": "waits for 4 nodes", "incidents": []}
    data["status"]["job"] |= {"phase": "waiting", "step": None, "steps_per_second": None,
                              "restarts": 0, "age_seconds": 3.0}
    data["status"] |= {"checkpoints": None, "world": {"generation": 0, "size": 0, "number": 0}}
    data["goodput"] |= {"rank_seconds": dict.fromkeys(data["goodput"]["rank_seconds"], 0.0),
                        "runtime": 0, "scheduling": 0, "steps_executed": 0, "steps_redone": 0,
                        "mfu": None, "mfu_unknown_because": "no rank told a plan"}
    data["timeline"] |= {"stretches": [], "lanes": []}
    data |= {"seats": [], "topology": None}
    return data


def hostile() -> Data:
    """Text of the job that would be markup, an escape sequence, or would turn a line around."""
    data = failed()
    bad = '<img src=x onerror="document.title=1"></script><b>\x1b[31mred \u202egnp.exe'
    data["name"] = bad
    data["sentence"] = bad
    data["troubles"] = [bad]
    data["timeline"]["lanes"][0]["node"] = bad
    for one in data["incidents"]:
        one |= {"title": bad, "traceback": bad, "log": [bad, "x" * 1_000_000], "next": bad}
        one["evidence"][0]["sentence"] = bad
    return data


def large() -> Data:
    data = running()
    # The hosts joined one after another, within some seconds.
    first = NOW - 1795
    data["timeline"]["lanes"] = [
        {"node": f"node{i}", "parts": [{"from": first + i / 200, "until": NOW, "is_seated": True}]}
        for i in range(1249)]
    data["timeline"]["lanes"].append(running()["timeline"]["lanes"][3] | {"node": "node1249"})
    data["sentence"] = "trains with 10,000 ranks on 1,250 nodes"
    data["status"]["world"]["size"] = 10_000
    data["seats"] = [{"node": f"node{i}", "first_rank": 8 * i, "ranks": 8} for i in range(1250)]
    data["topology"] = None
    return data


SLOW_RANK = 4711
COLUMNS = 180
USUAL = 101


def heat(ranks: int, slow: int, *, now: float = NOW) -> bytes:
    """docs/formats/heat.md: half an hour in which one rank is 10 % slow from the middle on."""
    noise = random.Random(3)
    usual = bytes(USUAL + noise.choice((-2, -1, 0, 0, 1, 2)) for _ in range(ranks))
    last = int(now) // 10
    columns = b""
    for i in range(COLUMNS):
        shift = noise.randrange(ranks)
        told = bytearray(usual[shift:] + usual[:shift])
        if i >= COLUMNS // 2:
            told[slow] = USUAL + 10
        columns += struct.pack("<III", last - COLUMNS + 1 + i, 2, ranks) + told
    return b"PLHEAT1\n" + struct.pack("<QIIII", 7, 10, 0, COLUMNS, COLUMNS) + columns


def hanging() -> Data:
    """A hang that was named after 28 s and lasts, and one that has ended by itself."""
    data = running()
    began = NOW - 120
    sentence = "Rank 5 on node1 is stopped (SIGSTOP); 15 ranks wait for it"
    data |= {"sentence": f"no step for 2 min: {sentence}"}
    data["status"]["hang"] = {"seq": 88, "ranks": [5], "sentence": sentence}
    over = incident(75, NOW - 600, title="Rank 2 on node0 was in a debugger")
    data["incidents"] = [
        incident(88, began, title=sentence, is_open=True) | {"lasted_seconds": 120.0},
        over | {"lasted_seconds": 90.0}, *data["incidents"]]
    data["timeline"]["stretches"][-1:] = [
        {"from": NOW - 800, "until": NOW - 600, "class": "productive"},
        {"from": NOW - 600, "until": NOW - 510, "class": "hang"},
        {"from": NOW - 510, "until": began, "class": "productive"},
        {"from": began, "until": NOW, "class": "hang"}]
    return data


def away() -> Data:
    return running() | {"is_live": False, "troubles": ["the disk of the run directory is full"],
                        "data_at": NOW - 14}


STATES = {
    "running": running,
    "stale": lambda: running() | {"data_at": NOW - 900},
    "away": away,
    "recovering": recovering,
    "hanging": hanging,
    "nothing_yet": nothing_yet,
    "finished": lambda: ended("finished", 0, "every rank is done"),
    "stopped": lambda: ended("stopped", 0, "a user asked to stop"),
    "failed": failed,
    "hostile": hostile,
    "large": large,
}


def with_data(page: str, data: Data) -> str:
    """The page that paceline wrote, with other data in it."""
    text = json.dumps(copy.deepcopy(data)).replace("<", "\\u003c")
    pattern = r'(<script type="application/json" id="data">).*?(</script>)'
    return re.sub(pattern, lambda match: match[1] + text + match[2], page, count=1, flags=re.DOTALL)
