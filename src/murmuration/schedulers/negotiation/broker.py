"""The broker: a partial, slightly old view of the nodes, and the candidates it recommends from it
(4.3, 6.2).

A broker decides nothing and owns nothing; one that crashed starts empty and learns from the next
reports. It stamps what it hears with its own clock: a report with the time it came, a view that
another broker passes on with that time less its age. The time a message is under way is not
counted, so a node that fell silent may be recommended that much longer than `expiry_s`.

**Being wrong is cheap.** A recommendation promises nothing: the node is asked itself, and checks
once more before it reserves room. So a broker needs neither locks nor agreement with its peers,
may lose what it knows, and may be asked by anybody. What it must not do is send everybody to the
same node. Hence the draw: nodes are rated in a random order until enough of them suit, and
candidates are drawn among these by weight, so that two askers at the same time get different ones
though the same node is best for both.

**Columns.** A question rates hundreds of nodes, thousands of times a minute. Reports are therefore
kept as columns that the compiled `rate_nodes` reads as they are; rows of forgotten nodes are used
again, and a row that is free has an age that no question accepts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from murmuration.cluster.constraints import Constraint, parse_constraint
from murmuration.schedulers.agent import Effect, Message, Send, Wake
from murmuration.schedulers.negotiation.base_agent import SteadyClock
from murmuration.schedulers.negotiation.candidates import FORCED, SUITABLE, draw, rate_nodes
from murmuration.schedulers.negotiation.messages import (
    Attributes,
    BrokerExchange,
    Candidate,
    GetCandidateNodesRequest,
    GetCandidateNodesResponse,
    NodeGone,
    NodeLoad,
    NodeReport,
    NodeView,
)
from murmuration.schedulers.negotiation.settings import NegotiationSettings


@lru_cache(maxsize=4096)
def constraint(text: str) -> Constraint:
    return parse_constraint(text)


def meets(constraints: Sequence[str], attributes: Attributes) -> bool:
    """Whether a node with these attributes may run a task with these constraints."""
    return not constraints or all(constraint(text).meets(attributes) for text in constraints)


@dataclass(frozen=True, slots=True)
class KnownNode:
    """The newest report of a node."""

    node: str
    number: int
    load: NodeLoad
    attributes: Attributes


class BrokerTable:
    """Reports as columns, one row per node; rows of forgotten nodes are used again."""

    def __init__(self, resources: int) -> None:
        self.rows: dict[str, int] = {}
        self.known: list[KnownNode | None] = []
        self.amounts = np.zeros((3, 16, resources), np.int64)
        self.tasks = np.zeros(16, np.int64)
        #: When each report was made, by the clock of this broker.
        self.at = np.full(16, -np.inf)

    def put(self, known: KnownNode, at: float) -> None:
        """Keep a report, unless this one or a newer one of the same node is here."""
        row = self.rows.get(known.node)
        if row is None:
            row = self._new_row()
            self.rows[known.node] = row
        else:
            current = self.known[row]
            if current is not None and current.number >= known.number:
                return
        load = known.load
        self.known[row], self.tasks[row], self.at[row] = known, load.tasks, at
        for column, amounts in enumerate((load.total, load.used, load.guaranteed)):
            self.amounts[column, row] = amounts

    def drop(self, node: str) -> None:
        row = self.rows.pop(node, None)
        if row is not None:
            self.known[row], self.at[row] = None, -np.inf
            self.amounts[:, row] = 0

    def _new_row(self) -> int:
        if len(self.rows) < len(self.known):
            return self.known.index(None)
        self.known.append(None)
        if len(self.known) > len(self.at):
            self.amounts = np.concatenate([self.amounts, np.zeros_like(self.amounts)], axis=1)
            self.tasks = np.concatenate([self.tasks, np.zeros_like(self.tasks)])
            self.at = np.concatenate([self.at, np.full(len(self.at), -np.inf)])
        return len(self.known) - 1


class Broker:
    """Told reports, exchanges and questions; answers with candidates. `rate` may be the compiled
    `rate_nodes`."""

    def __init__(
        self,
        name: str,
        others: Sequence[str],
        resources: int,
        settings: NegotiationSettings,
        rng: np.random.Generator,
        rate: Callable[..., int] = rate_nodes,
        authorities: Collection[str] = (),
    ) -> None:
        self.name, self.settings = name, settings
        self.table = BrokerTable(resources)
        #: Nodes that did not answer others, and until when they are left out.
        self.unanswering: dict[str, float] = {}
        self._others = [other for other in others if other != name]
        self._rng, self._rate = rng, rate
        self._authorities = frozenset(authorities)
        self._room = (np.zeros(resources), np.zeros(resources))
        self._clock = SteadyClock()
        self._exchange_at = -math.inf

    def handle(self, event: Message, now: float) -> list[Effect]:
        """All that a broker hears (`ToBroker`), and who takes it."""
        steady = self._clock.advance(now)
        match event:
            case Wake():
                return self._on_wake(steady) if self.due <= now else []
            case NodeReport(node, number, load, attributes):
                self.table.put(KnownNode(node, number, load, attributes), steady)
                return []
            case BrokerExchange():
                return self._on_exchange(event, steady)
            case GetCandidateNodesRequest():
                return self._on_request(event, steady)
            case NodeGone():
                return self._on_gone(event)
        raise AssertionError(f"{self.name} may not hear {event.key}")

    @property
    def due(self) -> float:
        """When it next tells another broker what it knows."""
        return self._clock.on_host(self._exchange_at)

    def _on_gone(self, gone: NodeGone) -> list[Effect]:
        """Wrongly believed this would only cost a recommendation; all agents believe the same
        parties all the same."""
        if gone.sender in self._authorities:
            self.table.drop(gone.node)
        return []

    def _on_exchange(self, exchange: BrokerExchange, now: float) -> list[Effect]:
        for view in exchange.views:
            if view.age_s < self.settings.expiry_s:
                known = KnownNode(view.node, view.number, view.load, view.attributes)
                self.table.put(known, now - view.age_s)
        self._avoid(exchange.unanswering, now)
        return []

    def _avoid(self, unanswering: Sequence[tuple[str, float]], now: float) -> None:
        for node, seconds in unanswering:
            until = now + seconds
            self.unanswering[node] = max(until, self.unanswering.get(node, until))

    def _on_wake(self, now: float) -> list[Effect]:
        """Forget what is old, and tell another broker a part of the rest."""
        self._exchange_at = now + self.settings.exchange_s
        self._forget_old(now)
        known = [node for node in self.table.known if node is not None]
        if not self._others or not known:
            return []
        few = min(self.settings.exchange_reports, len(known))
        passed_on = [known[k] for k in self._rng.choice(len(known), few, replace=False)]
        other = self._others[int(self._rng.integers(len(self._others)))]
        unanswering = tuple((node, until - now) for node, until in self.unanswering.items())
        exchange = BrokerExchange(self.name, self._views(passed_on, now), unanswering)
        effects: list[Effect] = [Send(other, exchange)]
        if self.settings.underused:
            empty = [known[k] for k in self._find_underused(np.arange(len(known)), known)]
            exchange = BrokerExchange(self.name, self._views(empty, now))
            effects += [Send(name, exchange) for name in self._others if empty]
        return effects

    def _forget_old(self, now: float) -> None:
        oldest = now - self.settings.expiry_s
        for node in [node for node, row in self.table.rows.items() if self.table.at[row] <= oldest]:
            self.table.drop(node)
        self.unanswering = {node: until for node, until in self.unanswering.items() if until > now}

    def _views(self, nodes: Sequence[KnownNode], now: float) -> tuple[NodeView, ...]:
        return tuple(
            NodeView(
                known.node,
                known.number,
                now - float(self.table.at[self.table.rows[known.node]]),
                known.load,
                known.attributes,
            )
            for known in nodes
        )

    def _find_underused(self, places: Any, nodes: Sequence[KnownNode | None]) -> list[int]:
        """Places of nodes that are used little, the first few."""
        chosen: list[int] = []
        for k in places:
            known = nodes[k]
            if known is not None and len(chosen) < self.settings.underused:
                pairs = zip(known.load.used, known.load.total, strict=True)
                if all(used <= self.settings.underused_load * total for used, total in pairs):
                    chosen.append(int(k))
        return chosen

    def _on_request(self, request: GetCandidateNodesRequest, now: float) -> list[Effect]:
        self._avoid(request.unanswering, now)
        candidates = self._candidates(request, now)
        answer = GetCandidateNodesResponse(self.name, request.number, candidates)
        return [Send(request.sender, answer)]

    def _candidates(self, request: GetCandidateNodesRequest, now: float) -> tuple[Candidate, ...]:
        """Suitable nodes drawn by score, and forced ones when they are too few (6.6)."""
        table, settings = self.table, self.settings
        known = len(table.known)
        if known == 0:
            return ()
        order = self._rng.permutation(known)
        kind, limit = settings.score(request.new), settings.score_limit(request.new)
        if settings.underused:
            first = self._find_underused(order, table.known)
            order = np.concatenate([np.array(first, np.int64), order[~np.isin(order, first)]])
            limit += len(first)
        weights, fit = np.zeros(known), np.zeros(known, np.int64)
        total, used, guaranteed = table.amounts[:, :known]
        after, before = self._room
        self._rate(
            kind=kind,
            total=total,
            used=used,
            guaranteed=guaranteed,
            tasks=table.tasks[:known],
            allowed=self._find_allowed(request, now),
            order=order,
            use=np.array(request.use, np.int64),
            request=np.array(request.task.request, np.int64),
            production=request.task.production,
            limit=limit,
            weights=weights,
            fit=fit,
            after=after,
            before=before,
        )
        suitable = np.flatnonzero(fit == SUITABLE)
        chosen = suitable[draw(weights[suitable], settings.candidates, self._rng)]
        forced = self._rng.permutation(np.flatnonzero(fit == FORCED))[
            : settings.candidates - len(chosen)
        ]
        return (
            *(Candidate(self._node(i), float(weights[i])) for i in chosen),
            *(Candidate(self._node(i), 0.0, True) for i in forced),
        )

    def _node(self, row: int) -> str:
        known = self.table.known[row]
        assert known is not None
        return known.node

    def _find_allowed(self, request: GetCandidateNodesRequest, now: float) -> Any:
        """Rows that are fresh, answer, meet the task's constraints, and are not the one that
        asks."""
        known = len(self.table.known)
        allowed = self.table.at[:known] > now - self.settings.expiry_s
        for node in (request.sender, *(n for n, until in self.unanswering.items() if until > now)):
            if node in self.table.rows:
                allowed[self.table.rows[node]] = False
        if request.task.constraints:
            for row in np.flatnonzero(allowed):
                entry = self.table.known[row]
                allowed[row] = entry is not None and meets(
                    request.task.constraints, entry.attributes
                )
        return allowed
