"""`murmur kube plan`: what `murmur plan` does, on the cluster as it is now."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import common
from murmuration.cli.kube.access import CONTEXT, KUBECONFIG, with_client
from murmuration.cli.plan import plan as plan_file

#: Options that are for files of other formats.
_NOT_HERE = ("snapshot", "assignment")


@common.with_options(KUBECONFIG, CONTEXT)
def _plan(kubeconfig: Path | None, context: str | None, **options: object) -> None:
    """Plan a better allocation for the cluster as it is now.

    The options are those of `murmur plan`. The folder of results also gets cluster.json, the
    snapshot that was planned from; murmur kube apply carries the plan out.
    """
    from murmuration.base.files import ready_folder, write_json
    from murmuration.kubernetes.api.snapshot import read_cluster

    read = with_client(kubeconfig, context, read_cluster)
    out = options["out"]
    folder = ready_folder(out if isinstance(out, Path) else Path("runs") / "plan-cluster")
    write_json(folder / "cluster.json", read.document())
    for note in read.notes:
        common.say(f"note: {note}")
    assert plan_file.callback is not None
    given = {**options, "snapshot": folder / "cluster.json", "assignment": None, "out": folder}
    plan_file.callback(**given)


plan = click.command("plan")(_plan)
plan.params += [option for option in plan_file.params if option.name not in _NOT_HERE]
