"""What agents of the offers protocol say, as plain messages; that each goes to the right party is
checked on the way."""

from __future__ import annotations

from typing import Any

from murmuration.schedulers.agent import Agent, Do, Effect, Send
from murmuration.schedulers.offers.messages import (
    MASTER,
    FromFramework,
    JobFinished,
    LaunchTask,
    StopTask,
)


def messages(effects: list[Effect]) -> list[Any]:
    """The messages of a master: to nodes what is theirs, to frameworks all else."""
    return [_from_master(effect) for effect in effects]


def _from_master(effect: Effect) -> Any:
    assert isinstance(effect, Send), "a master of offers neither acts nor notes"
    match effect.message:
        case LaunchTask(_, task):
            assert effect.to == task.node
        case StopTask(_, node, _):
            assert effect.to == node
        case message:
            assert effect.to == getattr(message, "framework", None)
    return effect.message


def told(framework: Agent, event: Any, now: float) -> list[Any]:
    """What a framework answers to an event: messages to the master, and jobs that finished."""
    answers: list[Any] = []
    for effect in framework.handle(event, now):
        if isinstance(effect, Do):
            assert isinstance(effect.act, JobFinished)
            answers.append(effect.act)
        else:
            assert isinstance(effect, Send) and effect.to == MASTER
            assert isinstance(effect.message, FromFramework)
            answers.append(effect.message)
    return answers
