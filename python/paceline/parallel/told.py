"""Rank 0 tells its agent which plan the ranks carry out.

The master records it: `paceline events`, `why` and `status` say which plan runs, `paceline plan
--show` prints it, and no world is formed whose devices do not hold the model.
"""

import json
import logging
import socket

from paceline._base import launch
from paceline._rank import progress
from paceline.parallel.agree import Answer, Question

_SECONDS = 60.0  # an agent that is gone refuses at once, and one of a busy host may take seconds
_PLAN_BYTES_MAX = 256 << 10
_ANSWER_BYTES_MAX = 1 << 16


def tell_agent(question: Question, answer: Answer) -> None:
    """Hands the plan to this host's agent; training goes on without one, or if it does not answer.

    `docs/formats/checkpoint_socket.md` has the message.
    """
    why = _told(question, answer)
    if why:
        logging.getLogger("paceline").warning("the agent was not told of the plan: %s", why)


def told_of_move(question: Question, answer: Answer) -> str:
    """Asks for a world that carries this plan out: a checkpoint has it, and all ranks wait.

    Returns why the agent does not pass it on; "" if it does.
    """
    return _told(question, answer, moves=True) if launch.agent_socket() else "there is no agent"


def _told(question: Question, answer: Answer, *, moves: bool = False) -> str:
    path = launch.agent_socket()
    if path is None:
        return ""
    try:
        return _refusal(path, _message(question, answer, moves=moves))
    except (OSError, ValueError) as error:
        return str(error)


def _message(question: Question, answer: Answer, *, moves: bool = False) -> bytes:
    plan = answer.plan
    fields = {
        "op": "plan",
        "generation": progress.generation(),
        "summary": question.summary,
        "wishes": json.dumps(question.wishes, separators=(",", ":")),
        "cluster": answer.cluster,
        "plan": plan.text if len(plan.text.encode()) <= _PLAN_BYTES_MAX else "",
        "words": plan.told(),
        "because": f"{answer.because}; {plan.because}".strip("; "),
        "step": plan.step_seconds,
        **({"moves": True} if moves else {}),
    }
    return json.dumps(fields).encode() + b"\n"


def _refusal(path: str, message: bytes) -> str:
    """Why the agent does not take the message; "" if it does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(_SECONDS)
        link.connect(path)
        link.sendall(message)
        answer = b""
        while not answer.endswith(b"\n") and len(answer) < _ANSWER_BYTES_MAX:
            more = link.recv(4096)
            if not more:
                raise ConnectionError("it closed the connection")
            answer += more
    fields = json.loads(answer)
    if isinstance(fields, dict) and fields.get("op") == "planned":
        return ""
    return str(fields.get("why", "")) if isinstance(fields, dict) else "its answer is no object"
