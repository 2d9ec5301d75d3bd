"""Leases: how long a node agent may be away before its tasks may run elsewhere.

An agent counts from when it *sent* the last heartbeat that was answered, the master from when it
*received* the last one, which is later. The agent ends its tasks after `agent_timeout_s`, the
master gives them up a margin after that: so no task ever runs twice, whatever the network does. The
margin grows with the number of tasks on the node, because ending them takes time.
The master's state machine keeps them: joins and heartbeats are its events, and the end of a lease
is found when it is woken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from murmuration.schedulers.central.messages import (
    ANY_SESSION,
    AgentJoined,
    Heartbeat,
    HeartbeatSeen,
    Refused,
    Welcome,
)

#: Heartbeats per lease: so many may go missing.
BEATS = 12
#: How much longer the margin is for each task of a node: ending one takes a tenth of this.
TASK_MARGIN_S = 0.02


@dataclass(slots=True)
class Member:
    identity: str
    session: int
    heard_s: float
    connected: bool = True


@dataclass
class Leases:
    """The node agents a master knows of, and when each was last heard."""

    agent_timeout_s: float = 60.0
    margin_s: float = 10.0
    #: The term of the master that gives them.
    term: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    #: No lease ends before. Heartbeats only move ends to later times, so this need not be exact,
    #: and a heartbeat costs no search.
    due: float = math.inf

    @property
    def heartbeat_s(self) -> float:
        return self.agent_timeout_s / BEATS

    @property
    def lease_s(self) -> float:
        return self.agent_timeout_s + self.margin_s

    def expect(self, nodes: Iterable[str], now: float) -> None:
        """A master that starts again gives the nodes of its store a lease: their agents may come
        back."""
        for node in dict.fromkeys(nodes):
            self.members.setdefault(node, Member("", -1, now, connected=False))
            self.due = min(self.due, now + self.lease_s)

    def join(self, event: AgentJoined, now: float) -> Welcome | Refused:
        """Let an agent in, unless its name is another's."""
        # The identity is drawn once for each folder of a node agent. The same one with a new
        # session is the agent after a restart or on a new connection; another one is a second agent
        # under the same name, which would end the first one's tasks by joining. A name from the
        # store has no identity yet and belongs to whoever comes first.
        member = self.members.get(event.node)
        if member is not None and member.identity not in ("", event.identity):
            if member.connected:
                return Refused(
                    event.session,
                    f"a node agent named {event.node!r} is connected already",
                    self.term,
                )
            left = max(0.0, member.heard_s + self.lease_s - now)
            return Refused(
                event.session,
                f"the name {event.node!r} belongs to another node agent for the next {left:.0f} s",
                self.term,
            )
        self.members[event.node] = Member(event.identity, event.session, now)
        self.due = min(self.due, now + self.lease_s)
        return Welcome(event.session, self.agent_timeout_s, self.heartbeat_s, self.term)

    def hear(self, event: Heartbeat, now: float) -> HeartbeatSeen | None:
        """A heartbeat of a connection that still stands renews the lease."""
        # A heartbeat from before a break may arrive after the agent has joined again. It proves
        # that the agent was alive then, not that it is now, so it renews nothing.
        member = self.members.get(event.node)
        if member is None or member.session != event.session:
            return None
        member.heard_s = now
        return HeartbeatSeen(event.session, event.serial, self.term)

    def disconnect(self, node: str, session: int) -> bool:
        """The connection broke; False if it was an old one."""
        member = self.members.get(node)
        if member is None or member.session != session or not member.connected:
            return False
        member.connected = False
        return True

    def expire(self, now: float, tasks: Callable[[str], int] = lambda node: 0) -> dict[str, Member]:
        """The nodes whose leases have ended; they are members no longer. `tasks` says how many a
        node has."""
        if now < self.due:
            return {}
        # Only now is every member looked at; between two ends, `due` spares that.
        ends = {node: member.heard_s + self.lease_s for node, member in self.members.items()}
        late = [node for node, ends_s in ends.items() if now >= ends_s]
        for node in late:
            ends[node] += TASK_MARGIN_S * tasks(node)
        gone = {node: self.members.pop(node) for node in late if now >= ends[node]}
        self.due = min((ends[node] for node in self.members), default=math.inf)
        return gone

    def is_current(self, node: str, session: int) -> bool:
        """Whether a message was said on the connection by which the agent joined."""
        member = self.members.get(node)
        return member is not None and session in (ANY_SESSION, member.session)

    def left_s(self, node: str, now: float) -> float:
        return (
            max(0.0, self.members[node].heard_s + self.lease_s - now)
            if node in self.members
            else 0.0
        )
