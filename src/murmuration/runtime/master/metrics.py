"""What a master tells Prometheus: what there is, what it decides, and how its store and its API do.

Sums over the cluster, not a sample for each node or job: ten thousand of them would fill a
Prometheus, and `murmur status --json` has them.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from murmuration.base.version import __version__
from murmuration.runtime.master.reading import ReadModel
from murmuration.runtime.metrics import MetricFamily, count_by, counter, gauge, process_families
from murmuration.runtime.store.log import FactLog
from murmuration.schedulers.central.master import CentralMaster

#: Requests to the API, by method and status.
Requests = Counter[tuple[str, str]]


def list_metrics(
    master: CentralMaster, reading: ReadModel, log: FactLog, requests: Requests, now: float
) -> list[MetricFamily]:
    status = reading.status()
    total: dict[tuple[str, ...], float] = defaultdict(float)
    for node in status.nodes:
        for kind, amounts in (("total", node.total), ("required", node.required)):
            for name, amount in amounts.items():
                total[name, kind] += amount
        for name, amount in node.used.items():
            total[name, "used"] += amount
    waiting = [job.submit_s for job in master.jobs.queue.values()]
    names = ("version", "scheduler", "placement")
    info = (__version__, status.scheduler, status.placement)
    jobs, tasks = count_by(status.jobs), count_by(status.tasks)
    nodes = count_by(Counter(node.state for node in status.nodes))
    return [
        MetricFamily("murmur_info", "gauge", "What this master is", names, {info: 1.0}),
        gauge("murmur_term", "The term in which it leads", status.epoch),
        MetricFamily("murmur_jobs", "gauge", "Jobs that are kept", ("state",), jobs),
        MetricFamily("murmur_tasks", "gauge", "Tasks of them", ("state",), tasks),
        MetricFamily("murmur_nodes", "gauge", "Nodes", ("state",), nodes),
        MetricFamily(
            "murmur_resource",
            "gauge",
            "Amounts of all nodes: there, asked for by tasks, measured",
            ("resource", "kind"),
            total,
        ),
        gauge("murmur_queue_jobs", "Jobs with waiting tasks", len(waiting)),
        gauge(
            "murmur_queue_oldest_seconds",
            "How long ago the oldest of them was submitted",
            now - min(waiting, default=now),
        ),
        MetricFamily(
            "murmur_facts_total",
            "counter",
            "Facts of this master by kind, such as TaskPlaced",
            ("kind",),
            count_by(log.counts),
        ),
        counter("murmur_log_lines_total", "Lines of the log since the cluster began", log.index),
        counter("murmur_store_writes_total", "Batches written to the store", log.writes),
        counter("murmur_store_write_seconds_total", "Time spent on that", log.write_s),
        gauge("murmur_store_failing", "1 if the store cannot be written", bool(log.trouble)),
        MetricFamily(
            "murmur_http_requests_total",
            "counter",
            "Requests to the API",
            ("method", "status"),
            {key: float(count) for key, count in requests.items()},
        ),
        gauge("murmur_frameworks", "Schedulers from outside", len(status.frameworks)),
        *process_families(),
    ]
