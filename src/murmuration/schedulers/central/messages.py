"""The messages between the master and its node agents, what clients ask of the master, and the
facts it answers with.

Each is a frozen value. A *run* is one start of one task: `hello.0.2` is the second run of task
`hello.0` of job `hello`. Nothing is ever started twice under one run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from murmuration.schedulers.offers.messages import Status, Vector
from murmuration.workload.job_spec import JobSpec

#: The framework of the built-in job manager.
JOBS = "jobs"


@dataclass(frozen=True, slots=True)
class Order:
    """What a node agent needs to know to run a task."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    time_limit_s: float | None = None
    ports: tuple[int, ...] = ()
    #: How long an emulated executor runs it; a real one does not look.
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """A run as its node agent tells a master of it."""

    framework: str
    run: str
    request: Vector


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that ended, told until the master has it in its store."""

    framework: str
    run: str
    status: Status
    code: int | None = None
    signal: int | None = None
    reason: str = ""


# From a node agent to the master.


@dataclass(frozen=True, slots=True)
class AgentJoined:
    """A node agent connects; `session` grows with every connection, so that what an old one brings
    late is known."""

    node: str
    identity: str
    session: int
    #: Exact amounts by the name of the resource.
    total: dict[str, int]
    attributes: dict[str, str | float] = field(default_factory=dict)
    running: tuple[Running, ...] = ()
    ended: tuple[Ended, ...] = ()


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The agent is there; `usage` has CPU seconds so far and bytes of memory for each run."""

    node: str
    session: int
    serial: int
    usage: dict[str, tuple[float, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunStarted:
    node: str
    framework: str
    run: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    node: str
    ended: Ended


@dataclass(frozen=True, slots=True)
class AgentLeaves:
    """The agent is about to end, and takes no new tasks."""

    node: str


# From the master to a node agent.


@dataclass(frozen=True, slots=True)
class Welcome:
    session: int
    agent_timeout_s: float
    heartbeat_s: float


@dataclass(frozen=True, slots=True)
class Refused:
    """The node agent may not join; it gives up with this reason."""

    session: int
    reason: str


@dataclass(frozen=True, slots=True)
class HeartbeatSeen:
    session: int
    serial: int


@dataclass(frozen=True, slots=True)
class Launch:
    session: int
    framework: str
    run: str
    request: Vector
    order: Order


@dataclass(frozen=True, slots=True)
class Stop:
    session: int
    framework: str
    run: str
    reason: str


@dataclass(frozen=True, slots=True)
class EndRecorded:
    """The master has stored the end of a run; the agent may forget it."""

    session: int
    framework: str
    run: str


ToAgent = Welcome | Refused | HeartbeatSeen | Launch | Stop | EndRecorded
FromAgent = AgentJoined | Heartbeat | RunStarted | RunEnded | AgentLeaves

# From clients and the driver to the master.


@dataclass(frozen=True, slots=True)
class SubmitJob:
    spec: JobSpec
    #: How long emulated executors run its tasks.
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class KillJob:
    """End a job, or one task of it (which a service then replaces)."""

    job: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Drain:
    """Take no new tasks on a node and move its services; with `now`, terminating tasks too. `on`
    False undoes it."""

    node: str
    on: bool = True
    now: bool = False


@dataclass(frozen=True, slots=True)
class AgentLost:
    """The connection to a node agent broke; its tasks go on until its lease ends."""

    node: str


@dataclass(frozen=True, slots=True)
class LeaseEnded:
    """A node agent has been away for so long that it has ended its tasks."""

    node: str


@dataclass(frozen=True, slots=True)
class StoredRun:
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


@dataclass(frozen=True, slots=True)
class StoredJob:
    spec: JobSpec
    serial: int
    submit_s: float
    first_run: int = 0
    killed: bool = False
    duration_s: float | None = None
    runs: tuple[StoredRun, ...] = ()


@dataclass(frozen=True, slots=True)
class Recover:
    """A master starts: what the store has. `epoch` counts the starts, and each draws from a
    generator of its own."""

    epoch: int
    seed: int
    jobs: tuple[StoredJob, ...] = ()
    draining: tuple[str, ...] = ()


# Facts: what happened and what was decided, in the order of the log.


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    job: str
    serial: int
    first_run: int
    spec: JobSpec
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class JobKilled:
    job: str


@dataclass(frozen=True, slots=True)
class TaskPlaced:
    """A decision: this run of this task goes to this node."""

    job: str
    index: int
    run: int
    node: str


@dataclass(frozen=True, slots=True)
class TaskStarted:
    job: str
    index: int
    run: int
    node: str


@dataclass(frozen=True, slots=True)
class TaskEnded:
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


@dataclass(frozen=True, slots=True)
class JobEnded:
    job: str
    status: str
    code: int


@dataclass(frozen=True, slots=True)
class JobForgotten:
    """So many jobs have ended since that this one is no longer kept."""

    job: str


@dataclass(frozen=True, slots=True)
class NodeIsUp:
    node: str


@dataclass(frozen=True, slots=True)
class NodeUnreachable:
    node: str


@dataclass(frozen=True, slots=True)
class NodeIsLost:
    node: str


@dataclass(frozen=True, slots=True)
class NodeDraining:
    node: str
    on: bool


Fact = (
    JobSubmitted
    | JobKilled
    | TaskPlaced
    | TaskStarted
    | TaskEnded
    | JobEnded
    | JobForgotten
    | NodeIsUp
    | NodeUnreachable
    | NodeIsLost
    | NodeDraining
)


@dataclass(frozen=True, slots=True)
class Send:
    """A message to a node agent."""

    node: str
    message: ToAgent
