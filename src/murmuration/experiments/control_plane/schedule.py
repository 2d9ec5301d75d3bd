"""Random fault schedules for a whole control plane: everything goes wrong for a while, then calm.

What goes wrong under one master goes wrong here too (`simulation/messages/central_faults.py`). On
top of that, masters crash, one of them for good, are suspended beyond their lease and cut off from
etcd, from nodes, from each other; etcd loses its majority, and its answers; frameworks crash and
lose their connections. What must hold is in `checks.py`.
"""

from __future__ import annotations

import math

import numpy as np

from murmuration.base.random import generator
from murmuration.base.resources import Resources
from murmuration.experiments.control_plane.checks import CHECKERS, SHARES_FOR_S, SHARES_S
from murmuration.experiments.control_plane.cluster import STORE, ControlPlane
from murmuration.placement.registry import resolve
from murmuration.schedulers.central.master import CentralSettings
from murmuration.schedulers.central.messages import Order
from murmuration.schedulers.offers.master import Rules
from murmuration.schedulers.offers.work import Piece
from murmuration.simulation.messages.central_faults import (
    CPU,
    FAULTS_S,
    GB,
    MARGIN_S,
    TIMEOUT_S,
    draw_clients,
    draw_host_faults,
)
from murmuration.simulation.messages.drive import BrokenError
from murmuration.simulation.messages.network import (
    Crash,
    FaultSettings,
    Jump,
    Partition,
    Pause,
    draw_faults,
)

#: It ends when all work is done, between these times; looked at from time to time.
END_S, END_MAX_S, LOOK_S = 320.0, 900.0, 20.0
#: Frameworks, and whether they take offers; the others commit transactions.
FRAMEWORKS = {"ada": True, "bea": True, "cyd": False, "dan": False}
#: What a piece of work asks for.
REQUEST = (CPU // 2, GB // 2)
#: How many pieces of each framework by offers wait while shares are compared.
AHEAD = 4


def draw_plane(seed: int, masters: int) -> ControlPlane:
    """A control plane and what goes wrong in it, all from one seed."""
    rng = generator(seed, "faults")
    nodes = {
        f"node-{k}": {"cpu": 2 * CPU, "memory": int(rng.choice([4, 8])) * GB}
        for k in range(int(rng.integers(2, 6)))
    }
    settings = CentralSettings(
        Resources(),
        resolve(str(rng.choice(["first-fit", "best-fit", "worst-fit"]))),
        Rules(timeout_s=float(rng.choice([1.0, 5.0]))),
        by_offers=bool(rng.random() < 0.3),
        agent_timeout_s=TIMEOUT_S,
        margin_s=MARGIN_S,
    )
    names = [f"master-{k}" for k in range(masters)]
    clocks = {name: float(rng.uniform(0, 1e6)) for name in (*nodes, *FRAMEWORKS)}
    faults = _draw_faults(rng, list(nodes), names)
    plane = ControlPlane(settings, nodes, masters, FRAMEWORKS, seed, rng, faults, clocks)
    plane.failing = float(rng.choice([0.0, 0.02, 0.1]))
    plane.driver.checkers += [check(plane) for check in CHECKERS]
    draw_clients(plane, rng)
    draw_host_faults(plane, rng)
    _draw_work(plane, rng)
    _draw_majority(plane, rng)
    for name in FRAMEWORKS:
        plane.driver.at(FAULTS_S + 10.0, plane.driver.start, name)
    return plane


def _draw_faults(rng: np.random.Generator, nodes: list[str], masters: list[str]) -> FaultSettings:
    others = [nodes[0], *masters, *FRAMEWORKS]
    base = draw_faults(rng, nodes[1:], others, FAULTS_S)
    crashes = list(base.crashes)
    for _ in range(int(rng.integers(0, 9))):
        at, name = float(rng.uniform(0, FAULTS_S)), str(rng.choice([*masters, *FRAMEWORKS]))
        crashes.append(Crash(at, name, float(rng.exponential(5.0)) + 0.1))
    if len(masters) > 1 and rng.random() < 0.3:
        crashes.append(Crash(float(rng.uniform(0, FAULTS_S)), masters[-1], math.inf))
    partitions = [
        Partition(part.start_s, part.end_s, part.side | ({STORE} if rng.random() < 0.5 else set()))
        for part in base.partitions
    ]
    for _ in range(int(rng.integers(0, 3))):
        # One master is cut off from etcd alone: it still hears its nodes.
        start = float(rng.uniform(0, FAULTS_S))
        end = min(start + float(rng.exponential(15.0)), FAULTS_S)
        rest = frozenset({*nodes, *FRAMEWORKS, *masters} - {str(rng.choice(masters))})
        partitions.append(Partition(start, end, frozenset({STORE}) | (rest - set(masters))))
    names = [*nodes, *FRAMEWORKS, *FRAMEWORKS, *masters, *masters]
    pauses = tuple(
        Pause(float(rng.uniform(0, FAULTS_S)), str(rng.choice(names)), float(rng.exponential(8.0)))
        for _ in range(int(rng.integers(0, 9)))
    )
    jumps = tuple(
        Jump(float(rng.uniform(0, FAULTS_S)), str(rng.choice(nodes)), float(rng.exponential(8.0)))
        for _ in range(int(rng.integers(0, 3)))
    )
    return FaultSettings(
        duplication=float(rng.choice([0.0, 0.05, 0.3])),
        late=float(rng.choice([0.0, 0.5, 0.9])),
        partitions=tuple(partitions),
        crashes=tuple(crashes),
        end_s=FAULTS_S,
        pauses=pauses,
        jumps=jumps,
    )


def _draw_majority(plane: ControlPlane, rng: np.random.Generator) -> None:
    """etcd loses its majority for a while."""
    for _ in range(int(rng.integers(0, 3))):
        at, lasts = float(rng.uniform(0, FAULTS_S)), float(rng.exponential(8.0))
        plane.driver.at(at, plane.etcd.lose_majority)
        plane.driver.at(min(at + lasts, FAULTS_S), plane.etcd.regain_majority)


def _draw_work(plane: ControlPlane, rng: np.random.Generator) -> None:
    """Work for every framework while there are faults; and for those by offers more than there is
    room for, while shares are compared."""
    driver = plane.driver
    for name in FRAMEWORKS:
        for k in range(int(rng.integers(2, 12))):
            piece = _make_piece(f"{name}-{k}", float(rng.uniform(1, 20)))
            driver.at(float(rng.uniform(0, FAULTS_S)), plane.submit_work, name, piece)
    for name in (name for name, by_offers in FRAMEWORKS.items() if by_offers):
        driver.at(SHARES_S - 20.0, _keep_busy, plane, name, "even", SHARES_S + SHARES_FOR_S)
        if rng.random() < 0.4:
            driver.at(0.0, _keep_busy, plane, name, "busy", FAULTS_S)


def _keep_busy(plane: ControlPlane, name: str, label: str, until_s: float, count: int = 0) -> None:
    """Keep pieces of work waiting for a framework until a time."""
    driver, agent = plane.driver, plane.driver.agent(name)
    known = agent.memory.pieces.values() if agent is not None else ()
    waiting = sum(not each.is_out and not each.is_done for each in known)
    for _ in range(AHEAD - waiting if agent is not None else 0):
        count += 1
        lasts_s = 4.0 + 4.0 * float(plane.rng.random())
        plane.submit_work(name, _make_piece(f"{name}-{label}-{count}", lasts_s))
    if driver.now < until_s:
        driver.at(driver.now + 0.5, _keep_busy, plane, name, label, until_s, count)


def _make_piece(name: str, lasts_s: float) -> Piece:
    return Piece(name, REQUEST, Order(("x",), duration_s=lasts_s))


def _run(plane: ControlPlane) -> None:
    """Until all work is done: on one node that is left it takes its time."""
    driver = plane.driver
    driver.run(END_S)
    pieces = [party.written.pieces for party in plane.frameworks.values()]
    while driver.now < END_MAX_S and not all(p.is_done for each in pieces for p in each.values()):
        driver.run(driver.now + LOOK_S)
    driver.run(driver.now + LOOK_S)


def run_schedule(seed: int, masters: int = 3) -> dict[str, int]:
    """One schedule; `BrokenError` says what went wrong and which command repeats it."""
    plane = draw_plane(seed, masters)
    driver = plane.driver
    try:
        _run(plane)
        driver.finish()
    except AssertionError as error:
        words = f"--protocol central --masters {masters} --schedules 1 --seed {seed}"
        raise BrokenError(
            f"{error} (at {driver.now:.3f} s; repeat with: murmur faults {words})"
        ) from error
    tasks = {span.run.rpartition(".")[0] for span in plane.spans}
    faults = plane.connections.faults
    return {
        "seed": seed,
        "nodes": len(plane.hosts),
        "tasks_ended": len(tasks),
        "runs_repeated": len(plane.spans) - len(tasks),
        "masters_elected": plane.elections,
        "facts_written": plane.facts,
        "crashes": len(faults.crashes),
        "partitions": len(faults.partitions),
        "pauses": len(faults.pauses),
        "clocks_jumped": len(faults.jumps),
        "messages": plane.connections.sent,
        "messages_lost": plane.connections.lost,
    }
