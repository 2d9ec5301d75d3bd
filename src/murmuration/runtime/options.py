"""How the processes of a live cluster are started; apart from them, so that nobody imports what it
does not need."""

from __future__ import annotations

import msgspec

from murmuration.runtime.isolations import AUTO
from murmuration.workload.job_spec import DISK

#: How long an authority and a certificate are valid if nobody says otherwise, and at most.
AUTHORITY_DAYS, CERTIFICATE_DAYS, DAYS_MAX = 3650, 365, 36500
#: What unpacked images may take on disk before those that nobody uses make room.
IMAGE_BYTES = 20 * 2**30
#: What the folders of runs that have ended may take before the oldest are removed.
KEPT_BYTES = 20 * 2**30
#: Lines of a part's log for people, or for programs.
LOG_FORMATS = TEXT_LINES, JSON_LINES = ("text", "json")


class MasterOptions(msgspec.Struct, kw_only=True):
    """How a master is started."""

    folder: str
    host: str = "127.0.0.1"
    port: int = 0
    #: The name or address under which others reach it; without it, the one it listens on.
    advertise: str = ""
    scheduler: str = "monolithic"
    placement: str = "first-fit"
    allocator: str = "drf"
    #: A queue discipline; empty: by priority, and no job holds up another.
    queue: str = ""
    #: Settings of the queue by the keys of a scenario: `scheduler.queue_settings.preempt=requeue`.
    settings: list[str] = []
    #: Offers are made together so often; 0: each as soon as there is something to offer.
    allocation_interval_s: float = 0.0
    resources: list[str] = []
    seed: int = 1
    agent_timeout_s: float = 60.0
    isolation: str = AUTO
    #: Where node agents and schedulers connect; 0 for any port.
    agents_port: int = 0
    #: `etcd://HOST:PORT,…`; without it the store is SQLite's, in the folder.
    store: str = ""
    #: A folder with a certificate that etcd accepts; without it, it is asked in clear text.
    store_tls: str = ""
    #: The name of the cluster in a store that others may use too.
    cluster: str = "murmuration"
    #: A leader that cannot be reached is replaced after this.
    leader_timeout_s: int = 3
    #: Requests per second that each user may make of the API.
    rate_limit: float = 100.0
    #: What a task may have on disk if its job says nothing, and the most that a job may say.
    disk: str = DISK
    disk_max: str = ""
    log_format: str = TEXT_LINES


class NodeVolume(msgspec.Struct, frozen=True):
    """A folder of a node that tasks may use."""

    path: str
    is_read_only: bool = False
    #: Tasks act in it as the account of their user on the node, if it has one.
    is_by_account: bool = False


class EmulatedNode(msgspec.Struct):
    """A node whose tasks are no processes: they take as long as their order says."""

    name: str
    resources: dict[str, int]
    attributes: dict[str, str | float] = {}


class AgentOptions(msgspec.Struct, kw_only=True):
    """How a node agent is started; `resources` are exact amounts."""

    folder: str
    name: str
    resources: dict[str, int]
    attributes: dict[str, str | float] = {}
    isolation: str = AUTO
    root: str = "/"
    #: Where masters may listen, `HOST:PORT`; without it the folder says where the leader is.
    join: list[str] = []
    #: A file with the cluster's token; without it the token is in the folder.
    token_file: str = ""
    #: Folders of the node that tasks may use, by name.
    volumes: dict[str, NodeVolume] = {}
    #: Images that tasks may have as their root, by name, and what those unpacked may take on disk.
    images: dict[str, str] = {}
    image_bytes_max: int = IMAGE_BYTES
    #: The most that a task may have on disk, whoever ordered it; 0 is no bound.
    disk_bytes_max: int = 0
    #: What folders of runs that have ended may take on disk.
    kept_bytes_max: int = KEPT_BYTES
    #: These node agents instead, all on one connection.
    emulated: list[EmulatedNode] = []
    log_format: str = TEXT_LINES
    #: Metrics on this port of loopback; 0 for any, none for no metrics.
    metrics_port: int | None = None
