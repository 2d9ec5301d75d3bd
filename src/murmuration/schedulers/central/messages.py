"""The protocol "central": the messages between the master and its node agents, what clients ask
of the master, and the facts it notes. The unions say who may hear what.

A *run* is one start of one task: `hello.0.2` is the second run of task
`hello.0` of job `hello`. Nothing is ever started twice under one run.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from murmuration.schedulers.agent import Connected, Disconnected, Message, Wake
from murmuration.schedulers.offers.messages import Status, Vector
from murmuration.workload.job_spec import GRACE_S, JobSpec
from murmuration.workload.service_spec import HealthCheck, VolumeMount

#: The framework of the built-in job manager.
JOBS = "jobs"
#: The session of a message in a log that was written before messages had one.
ANY_SESSION = -1


class CentralMessage(Message, frozen=True):
    """A message of this protocol."""

    protocol: ClassVar[str] = "central"


class FromNodeAgent(CentralMessage, frozen=True):
    """A message in which a node agent speaks. It carries the session of the connection it was said
    on, so that the master can tell what an old connection brings late."""

    protocol: ClassVar[str] = "central"
    speaker: ClassVar[str] = "node"


class Order(msgspec.Struct, frozen=True):
    """What a node agent needs to know to run a task."""

    command: tuple[str, ...]
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    time_limit_s: float | None = None
    ports: tuple[int, ...] = ()
    #: How long an emulated executor runs it; a real one does not look.
    duration_s: float | None = None
    #: The node's network, where it could have one of its own.
    host_network: bool = False
    #: Bytes that it may have on disk; 0 is no bound.
    disk: int = 0
    #: What it has between being told to stop and being killed.
    grace_s: float = GRACE_S
    #: How to see whether it is well.
    health: HealthCheck | None = None
    volumes: tuple[VolumeMount, ...] = ()
    #: The root of its container, as the job names it; without one, the node's.
    image: str = ""
    #: The command is only what follows the entry point of the image.
    is_after_entrypoint: bool = False
    #: Whose job it is of. Schedulers outside speak for nobody.
    user: str = ""


class Rollout(msgspec.Struct, frozen=True):
    """Which version of its specification a job has, the one before and the way back to it, and what
    is under way: "updating", "rolling back", or nothing."""

    version: int = 0
    previous_version: int = 0
    previous: JobSpec | None = None
    phase: str = ""
    #: Why it is rolled back.
    reason: str = ""


class Running(msgspec.Struct, frozen=True):
    """A run as its node agent tells a master of it."""

    framework: str
    run: str
    request: Vector
    #: It has a check of its health, and the last one went well.
    healthy: bool = False
    #: Its process has not started yet.
    starting: bool = False
    #: It keeps its memory and does nothing.
    suspended: bool = False


class Ended(msgspec.Struct, frozen=True):
    """A run that ended, told until the master has it in its store."""

    framework: str
    run: str
    status: Status
    code: int | None = None
    signal: int | None = None
    reason: str = ""
    #: It never began, and that is the node's fault, not the task's.
    node_fault: bool = False


# From a node agent to the master.


class AgentJoined(FromNodeAgent, frozen=True):
    """A node agent connects; `session` grows with every connection, so that what an old one brings
    late is known."""

    node: str
    identity: str
    session: int
    #: Exact amounts by the name of the resource.
    total: dict[str, int]
    attributes: dict[str, str | float] = msgspec.field(default_factory=dict)
    running: tuple[Running, ...] = ()
    ended: tuple[Ended, ...] = ()


class Heartbeat(FromNodeAgent, frozen=True):
    """The agent is there; `usage` has CPU seconds so far and bytes of memory for each run."""

    node: str
    session: int
    serial: int
    usage: dict[str, tuple[float, int]] = msgspec.field(default_factory=dict)


class RunStarted(FromNodeAgent, frozen=True):
    """The process of a run has started."""

    node: str
    framework: str
    run: str
    session: int = ANY_SESSION


class RunHealth(FromNodeAgent, frozen=True):
    """A run has become healthy, or is unhealthy for this reason and about to be ended."""

    node: str
    framework: str
    run: str
    healthy: bool
    reason: str = ""
    session: int = ANY_SESSION


class RunEnded(FromNodeAgent, frozen=True):
    """A run has ended; repeated on every connection until the master says `EndRecorded`."""

    node: str
    ended: Ended
    session: int = ANY_SESSION


class AgentLeaves(FromNodeAgent, frozen=True):
    """The agent is about to end, and takes no new tasks."""

    node: str
    session: int = ANY_SESSION


# From the master to a node agent. Each says in which term its master leads: the number of its epoch
# in the store, larger than that of every master before it.


class Welcome(CentralMessage, frozen=True):
    session: int
    agent_timeout_s: float
    heartbeat_s: float
    term: int = 0


class Refused(CentralMessage, frozen=True):
    """The node agent may not join; it gives up with this reason."""

    session: int
    reason: str
    term: int = 0


class HeartbeatSeen(CentralMessage, frozen=True):
    session: int
    serial: int
    term: int = 0


class Launch(CentralMessage, frozen=True):
    session: int
    framework: str
    run: str
    request: Vector
    order: Order
    term: int = 0


class Stop(CentralMessage, frozen=True):
    session: int
    framework: str
    run: str
    reason: str
    term: int = 0


class Suspend(CentralMessage, frozen=True):
    """A run makes way: it keeps its place and its memory, and does nothing until it may go on. What
    is left of its time limit is kept."""

    session: int
    framework: str
    run: str
    term: int = 0


class GoOn(CentralMessage, frozen=True):
    """A run that was suspended goes on."""

    session: int
    framework: str
    run: str
    term: int = 0


class EndRecorded(CentralMessage, frozen=True):
    """The master has stored the end of a run; the agent may forget it."""

    session: int
    framework: str
    run: str
    term: int = 0


class HangUp(CentralMessage, frozen=True):
    """An act of the master or of the agent: close this connection. The agent dials again, and joins
    again."""

    node: str
    session: int


ToAgent = Welcome | Refused | HeartbeatSeen | Launch | Stop | Suspend | GoOn | EndRecorded
FromAgent = AgentJoined | Heartbeat | RunStarted | RunHealth | RunEnded | AgentLeaves

# From clients and the driver to the master.


class SubmitJob(CentralMessage, frozen=True):
    spec: JobSpec
    #: How long emulated executors run its tasks.
    duration_s: float | None = None


class KillJob(CentralMessage, frozen=True):
    """End a job, or one task of it (which a service then replaces)."""

    job: str
    index: int | None = None


class MoveTask(CentralMessage, frozen=True):
    """Stop this run of a task, and run the task again on another node if one has room."""

    job: str
    index: int
    run: int


class RollBackJob(CentralMessage, frozen=True):
    """Give a service the specification it had before."""

    job: str


class ScaleJob(CentralMessage, frozen=True):
    """Have so many tasks of a job from now on; the newest end first."""

    job: str
    count: int


class Drain(CentralMessage, frozen=True):
    """Take no new tasks on a node and move its services; with `now`, terminating tasks too. `on`
    False undoes it."""

    node: str
    on: bool = True
    now: bool = False


class IssueToken(CentralMessage, frozen=True):
    """Let in who shows the token with this digest, as this user and in this role, for so long; one
    of the same name ends."""

    name: str
    role: str
    user: str
    digest: str
    #: None: until it is revoked.
    lasts_s: float | None = None


class RevokeToken(CentralMessage, frozen=True):
    name: str


class EndSessions(CentralMessage, frozen=True):
    """An act of the master: close the connections of who came in with this token."""

    token: str


class SetQuota(CentralMessage, frozen=True):
    """What a user may have at once: `jobs`, exact amounts by the name of the resource, and the
    highest `priority`. Without limits, as much as there is."""

    user: str
    limits: dict[str, int] = msgspec.field(default_factory=dict)


class AgentLost(CentralMessage, frozen=True):
    """The connection to a node agent broke. Only older logs have it; now it is `Disconnected`."""

    node: str


class LeaseEnded(CentralMessage, frozen=True):
    """A node agent has been away for so long that it has ended its tasks. The master finds out by
    itself; only older logs, and the replay of a log, tell it."""

    node: str


class StoredRun(msgspec.Struct, frozen=True):
    """One task of a job as the store has it."""

    index: int
    run: int
    node: str
    status: str
    failures: int = 0
    code: int | None = None
    reason: str = ""
    placed_s: float = 0.0
    started_s: float = 0.0
    ended_s: float = 0.0
    stopped_for: str = ""
    losses: int = 0
    version: int = 0
    done_s: float = 0.0
    resumed_s: float = 0.0


class StoredJob(msgspec.Struct, frozen=True):
    spec: JobSpec
    serial: int
    submit_s: float
    first_run: int = 0
    killed: bool = False
    duration_s: float | None = None
    runs: tuple[StoredRun, ...] = ()
    rollout: Rollout = Rollout()


class StoredToken(msgspec.Struct, frozen=True):
    """A token as the store has it: never itself, only its digest."""

    name: str
    role: str
    user: str
    digest: str
    issued_s: float = 0.0
    lasts_s: float | None = None


class Recover(CentralMessage, frozen=True):
    """A master starts: what the store has. `epoch` counts the starts, and each draws from a
    generator of its own."""

    epoch: int
    seed: int
    jobs: tuple[StoredJob, ...] = ()
    draining: tuple[str, ...] = ()
    tokens: tuple[StoredToken, ...] = ()
    #: The limits of each user that has some.
    quotas: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)


# Facts: what happened and what was decided, in the order of the log.


class JobSubmitted(CentralMessage, frozen=True):
    job: str
    serial: int
    first_run: int
    spec: JobSpec
    duration_s: float | None = None


class JobKilled(CentralMessage, frozen=True):
    job: str


class JobChanged(CentralMessage, frozen=True):
    """A job that has not ended has this specification from now on."""

    job: str
    spec: JobSpec
    rollout: Rollout = Rollout()


class TaskPlaced(CentralMessage, frozen=True):
    """A decision: this run of this task goes to this node."""

    job: str
    index: int
    run: int
    node: str
    #: Of the job's specification, if that was ever changed.
    version: int | None = None


class TaskStarted(CentralMessage, frozen=True):
    job: str
    index: int
    run: int
    node: str


class TaskHealth(CentralMessage, frozen=True):
    """A run has become healthy, or is unhealthy for this reason."""

    job: str
    index: int
    run: int
    node: str
    healthy: bool
    reason: str = ""


class TaskStopping(CentralMessage, frozen=True):
    """A decision: this run is told to stop, for this reason. It is on disk before the run hears of
    it, so that its end is understood by whoever sees it."""

    job: str
    index: int
    run: int
    reason: str


class TaskSuspended(CentralMessage, frozen=True):
    """A decision: this run makes way without ending. `done_s` is how long it has run."""

    job: str
    index: int
    run: int
    node: str
    reason: str
    done_s: float


class TaskWentOn(CentralMessage, frozen=True):
    """A decision: this run, which was suspended, goes on."""

    job: str
    index: int
    run: int
    node: str


class TaskEnded(CentralMessage, frozen=True):
    """A run ended with this status; the task is now in `state`: "waiting" if it will be run
    again."""

    job: str
    index: int
    run: int
    node: str
    status: Status
    code: int | None
    reason: str
    failures: int
    state: str
    #: How often in a row the task was lost.
    losses: int = 0


class JobEnded(CentralMessage, frozen=True):
    job: str
    status: str
    code: int


class JobForgotten(CentralMessage, frozen=True):
    """So many jobs have ended since that this one is no longer kept."""

    job: str


class NodeIsUp(CentralMessage, frozen=True):
    node: str


class NodeUnreachable(CentralMessage, frozen=True):
    node: str


class NodeIsLost(CentralMessage, frozen=True):
    node: str


class NodeDraining(CentralMessage, frozen=True):
    node: str
    on: bool


class NodeUnwell(CentralMessage, frozen=True):
    """The node could not start a task, for this reason; it gets no more for so long."""

    node: str
    reason: str
    seconds: float


class NodeTriedAgain(CentralMessage, frozen=True):
    """A node that was unwell gets tasks again, to see whether it is well."""

    node: str


class TokenIssued(CentralMessage, frozen=True):
    name: str
    role: str
    user: str
    digest: str
    lasts_s: float | None = None


class TokenRevoked(CentralMessage, frozen=True):
    name: str


class QuotaSet(CentralMessage, frozen=True):
    user: str
    limits: dict[str, int]


Fact = (
    JobSubmitted
    | JobKilled
    | JobChanged
    | TaskPlaced
    | TaskStarted
    | TaskHealth
    | TaskStopping
    | TaskSuspended
    | TaskWentOn
    | TaskEnded
    | JobEnded
    | JobForgotten
    | NodeIsUp
    | NodeUnreachable
    | NodeIsLost
    | NodeDraining
    | NodeUnwell
    | NodeTriedAgain
    | TokenIssued
    | TokenRevoked
    | QuotaSet
)

#: What a master may be told, besides what schedulers from outside say to its offers.
ToCentralMaster = (
    FromAgent
    | SubmitJob
    | KillJob
    | MoveTask
    | Drain
    | IssueToken
    | RevokeToken
    | SetQuota
    | ScaleJob
    | RollBackJob
    | AgentLost
    | LeaseEnded
    | Recover
    | Disconnected
    | Wake
)
ToNodeAgent = ToAgent | Connected | Disconnected | Wake
