"""Node and entry agents for tests, and how to tell them messages one by one."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from murmuration.base.random import generator
from murmuration.schedulers.agent import Agent, Do, Message, Send, Wake
from murmuration.schedulers.negotiation import messages as m
from murmuration.schedulers.negotiation.entry_agent import EntryAgent
from murmuration.schedulers.negotiation.memory import (
    NegotiationMemory,
    TaskAdmitted,
    TaskState,
)
from murmuration.schedulers.negotiation.node_agent import NegotiatingNode
from murmuration.schedulers.negotiation.settings import NegotiationSettings as Settings

Said = list[tuple[str | None, Message]]
#: The party whose word agents take that a node is gone.
MEMBERSHIP = "membership"
GIB = 2**30
TOTAL = (10, 10 * GIB)


def task(
    name: str, cpu: int = 2, production: bool = False, constraints: tuple[str, ...] = ()
) -> m.MobileTask:
    return m.MobileTask(name, (cpu, cpu * GIB), production, constraints)


def tell(agent: Agent, event: Message, now: float) -> Said:
    """What an agent sends, and to whom; None: what it wants done on its own host."""
    said: Said = []
    for effect in agent.handle(event, now):
        match effect:
            case Send(to, message):
                said.append((to, message))
            case Do(act):
                said.append((None, act))
    return said


def restart(agent: Any, seed: int = 2) -> Any:
    """The agent after a crash: a fresh one, from what its notes fold to."""
    rng = generator(seed, agent.name)
    if isinstance(agent, EntryAgent):
        return EntryAgent(
            agent.name, ["broker"], 2, Settings(), rng, deepcopy(agent.memory), [MEMBERSHIP]
        )
    return NegotiatingNode(
        agent.name, ["broker"], TOTAL, Settings(), rng, deepcopy(agent.memory), [MEMBERSHIP]
    )


def node(
    name: str = "a", *tasks: m.MobileTask, settings: Settings | None = None, **more: Any
) -> NegotiatingNode:
    """A node that runs some tasks, has measured them, and was woken once."""
    memory = NegotiationMemory()
    for each in tasks:
        memory.apply(TaskAdmitted(each), 0.0)
    agent = NegotiatingNode(
        name,
        ["broker"],
        TOTAL,
        settings or Settings(),
        generator(1, name),
        memory,
        authorities=[MEMBERSHIP],
        **more,
    )
    for each in tasks:
        agent.sums.used += np.subtract(each.request, agent.use[each.name])
        agent.use[each.name] = each.request
        agent.measured.add(each.name)
    tell(agent, Wake(), 0.0)
    # Nothing is suspended yet, and the host knows.
    agent._suspended = ()
    return agent


def entry(settings: Settings | None = None) -> EntryAgent:
    agent = EntryAgent(
        "entry",
        ["broker", "other"],
        2,
        settings or Settings(),
        generator(1, "entry"),
        NegotiationMemory(TaskState.WAITING),
        [MEMBERSHIP],
    )
    tell(agent, Wake(), 0.0)
    return agent


def kinds(said: Said) -> list[type]:
    return [type(message) for _, message in said]


def asks_for_room(
    agent: Any, wanted: m.MobileTask, now: float, *accepting: str, forced: tuple[str, ...] = ()
) -> Any:
    """Bring a negotiation about a task from the broker's question to the request for room; returns
    that request."""
    negotiation = agent.negotiations[wanted.name]
    number = negotiation.number
    candidates = [m.Candidate(name, 1.0) for name in accepting] + [
        m.Candidate(name, 0.0, True) for name in forced
    ]
    out = tell(agent, m.GetCandidateNodesResponse("broker", number, tuple(candidates)), now)
    load = m.NodeLoad(TOTAL, (1, GIB), (0, 0), 1)
    for name in accepting:
        out = tell(agent, m.TaskMigrationAcceptanceResponse(name, number, load), now)
    [(to, request)] = out
    assert type(request) is m.TaskMigrationProcessRequest and to == negotiation.target
    return request


def overload(agent: NegotiatingNode, now: float = 10.0) -> Said:
    """Every task suddenly uses half as much again."""
    use = {
        name: tuple(int(x * 1.5) for x in owned.task.request)
        for name, owned in agent.memory.tasks.items()
    }
    return tell(agent, m.Measured(use), now)


def handed_over(target: NegotiatingNode) -> tuple[EntryAgent, Any]:
    """An entry agent that has said that the target may run task t."""
    agent, new = entry(), task("t")
    tell(agent, m.SubmitTask(new), 0.0)
    request = asks_for_room(agent, new, 1.0, target.name)
    [(_, confirmation)] = tell(target, request, 1.0)
    [(_, order)] = tell(agent, confirmation, 1.0)
    assert isinstance(order, m.TakeOver) and agent.memory.tasks["t"].state is TaskState.STOPPED
    return agent, order
