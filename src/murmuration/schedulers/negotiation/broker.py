"""The broker: a partial, slightly old view of the nodes, and the candidates it recommends from it
(4.3, 6.2).

A broker decides nothing and owns nothing; one that crashed starts empty and learns from the next
reports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from murmuration.cluster.constraints import Constraint, parse_constraint
from murmuration.schedulers.negotiation.candidates import FORCED, SUITABLE, draw, rate_nodes
from murmuration.schedulers.negotiation.messages import (
    BrokerExchange,
    Candidate,
    GetCandidateNodesRequest,
    GetCandidateNodesResponse,
    NodeGone,
    NodeReport,
    Outbox,
    Wake,
)
from murmuration.schedulers.negotiation.settings import NegotiationSettings


@lru_cache(maxsize=4096)
def constraint(text: str) -> Constraint:
    return parse_constraint(text)


def meets(constraints: Sequence[str], attributes: dict[str, str | float]) -> bool:
    """Whether a node with these attributes may run a task with these constraints."""
    return all(constraint(text).meets(attributes) for text in constraints)


class Table:
    """Reports as columns, one row per node; rows of forgotten nodes are used again."""

    def __init__(self, resources: int) -> None:
        self.rows: dict[str, int] = {}
        self.reports: list[NodeReport | None] = []
        self.amounts = np.zeros((3, 16, resources), np.int64)
        self.tasks = np.zeros(16, np.int64)
        self.at = np.full(16, -np.inf)

    def put(self, report: NodeReport) -> None:
        """Keep a report, unless a newer one of the same node is here."""
        row = self.rows.get(report.node)
        if row is None:
            row = self._new_row()
            self.rows[report.node] = row
        elif self.at[row] >= report.at:
            return
        level = report.level
        self.reports[row], self.tasks[row], self.at[row] = report, level.tasks, report.at
        for column, amounts in enumerate((level.total, level.used, level.guaranteed)):
            self.amounts[column, row] = amounts

    def drop(self, node: str) -> None:
        row = self.rows.pop(node, None)
        if row is not None:
            self.reports[row], self.at[row] = None, -np.inf
            self.amounts[:, row] = 0

    def _new_row(self) -> int:
        if len(self.rows) < len(self.reports):
            return self.reports.index(None)
        self.reports.append(None)
        if len(self.reports) > len(self.at):
            self.amounts = np.concatenate([self.amounts, np.zeros_like(self.amounts)], axis=1)
            self.tasks = np.concatenate([self.tasks, np.zeros_like(self.tasks)])
            self.at = np.concatenate([self.at, np.full(len(self.at), -np.inf)])
        return len(self.reports) - 1


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
    ) -> None:
        self.name, self.settings = name, settings
        self.due = 0.0
        self.table = Table(resources)
        #: Nodes that did not answer others, and until when they are left out.
        self.unanswering: dict[str, float] = {}
        self._others = [other for other in others if other != name]
        self._rng, self._rate = rng, rate
        self._room = (np.zeros(resources), np.zeros(resources))
        self._on: dict[type, Callable[[Any, float], Outbox]] = {
            NodeReport: self._on_report,
            BrokerExchange: self._on_exchange,
            GetCandidateNodesRequest: self._on_request,
            NodeGone: self._on_gone,
            Wake: self._on_wake,
        }

    def handle(self, message: Any, now: float) -> Outbox:
        return self._on[type(message)](message, now)

    def _on_report(self, report: NodeReport, now: float) -> Outbox:
        self.table.put(report)
        return []

    def _on_gone(self, gone: NodeGone, now: float) -> Outbox:
        self.table.drop(gone.node)
        return []

    def _on_exchange(self, exchange: BrokerExchange, now: float) -> Outbox:
        for report in exchange.reports:
            if report.at > now - self.settings.expiry_s:
                self.table.put(report)
        self._avoid(exchange.unanswering)
        return []

    def _avoid(self, unanswering: Sequence[tuple[str, float]]) -> None:
        for node, until in unanswering:
            self.unanswering[node] = max(until, self.unanswering.get(node, until))

    def _on_wake(self, wake: Wake, now: float) -> Outbox:
        """Forget what is old, and tell another broker a part of the rest."""
        if now < self.due:
            return []
        self.due = now + self.settings.exchange_s
        old = now - self.settings.expiry_s
        for node in [node for node, row in self.table.rows.items() if self.table.at[row] <= old]:
            self.table.drop(node)
        self.unanswering = {node: until for node, until in self.unanswering.items() if until > now}
        known = [report for report in self.table.reports if report is not None]
        if not self._others or not known:
            return []
        few = min(self.settings.exchange_reports, len(known))
        passed_on = [known[k] for k in self._rng.choice(len(known), few, replace=False)]
        other = self._others[int(self._rng.integers(len(self._others)))]
        sent: Outbox = [
            (other, BrokerExchange(self.name, tuple(passed_on), tuple(self.unanswering.items())))
        ]
        if self.settings.underused:
            empty = tuple(known[k] for k in self._underused(np.arange(len(known)), known))
            sent += [(name, BrokerExchange(self.name, empty)) for name in self._others if empty]
        return sent

    def _underused(self, places: Any, reports: Sequence[NodeReport | None]) -> list[int]:
        """Places of nodes that are used little, the first few."""
        found: list[int] = []
        for k in places:
            report = reports[k]
            if report is not None and len(found) < self.settings.underused:
                pairs = zip(report.level.used, report.level.total, strict=True)
                if all(used <= self.settings.underused_load * total for used, total in pairs):
                    found.append(int(k))
        return found

    def _on_request(self, request: GetCandidateNodesRequest, now: float) -> Outbox:
        self._avoid(request.unanswering)
        candidates = self._candidates(request, now)
        return [(request.sender, GetCandidateNodesResponse(self.name, request.number, candidates))]

    def _candidates(self, request: GetCandidateNodesRequest, now: float) -> tuple[Candidate, ...]:
        """Suitable nodes drawn by score, and forced ones when they are too few (6.6)."""
        table, settings = self.table, self.settings
        known = len(table.reports)
        if known == 0:
            return ()
        order = self._rng.permutation(known)
        kind, limit = settings.score(request.new), settings.score_limit(request.new)
        if settings.underused:
            first = self._underused(order, table.reports)
            order = np.concatenate([np.array(first, np.int64), order[~np.isin(order, first)]])
            limit += len(first)
        weights, fit = np.zeros(known), np.zeros(known, np.int64)
        total, used, guaranteed = table.amounts[:, :known]
        self._rate(
            kind,
            total,
            used,
            guaranteed,
            table.tasks[:known],
            self._allowed(request, now),
            order,
            np.array(request.use, np.int64),
            np.array(request.task.request, np.int64),
            request.task.production,
            limit,
            weights,
            fit,
            *self._room,
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
        report = self.table.reports[row]
        assert report is not None
        return report.node

    def _allowed(self, request: GetCandidateNodesRequest, now: float) -> Any:
        """Rows that are fresh, answer, meet the task's constraints, and are not the one that
        asks."""
        known = len(self.table.reports)
        allowed = self.table.at[:known] > now - self.settings.expiry_s
        for node in (request.sender, *(n for n, until in self.unanswering.items() if until > now)):
            if node in self.table.rows:
                allowed[self.table.rows[node]] = False
        if request.task.constraints:
            for row in np.flatnonzero(allowed):
                report = self.table.reports[row]
                allowed[row] = report is not None and meets(
                    request.task.constraints, report.attributes
                )
        return allowed
