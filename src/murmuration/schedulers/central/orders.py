"""From a job's specification to what the ledger and a node agent need: exact amounts, parsed
constraints, and the order to run one task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from murmuration.base.errors import InputError, did_you_mean
from murmuration.base.resources import Resources, parse_quantity
from murmuration.cluster.constraints import Constraint, parse_constraint
from murmuration.schedulers.central.jobs import JobRecord
from murmuration.schedulers.central.messages import Order
from murmuration.schedulers.offers.messages import Vector
from murmuration.workload.job_spec import DISK, FieldError, JobSpec, task_name
from murmuration.workload.service_spec import (
    IMAGE,
    IMAGE_ATTRIBUTE,
    VOLUME_ATTRIBUTE,
    VolumeMount,
)


def make_order(job: JobRecord, index: int, run: int, node: str) -> Order:
    """What a node agent is told to run for one run of a task."""
    spec = job.spec
    variables = {
        "MURMUR_JOB": job.name,
        "MURMUR_TASK": task_name(spec, index),
        "MURMUR_INDEX": str(index),
        "MURMUR_COUNT": str(spec.count),
        "MURMUR_RUN": str(run - job.first_run),
        "MURMUR_NODE": node,
    }
    command = (*spec.command, *spec.arguments)
    # What is emulated takes as long as it is told to, and not a moment longer.
    lasts_s, limit_s = job.duration_s, spec.time_limit_s
    is_in_time = lasts_s is not None and limit_s is not None and lasts_s <= limit_s
    return Order(
        command,
        {**spec.environment, **variables},
        None if is_in_time else limit_s,
        tuple(spec.ports),
        job.duration_s,
        spec.network == "host",
        find_disk(spec),
        grace_s=spec.grace_s,
        health=spec.health,
        volumes=tuple(spec.volumes),
        image=spec.image,
        is_after_entrypoint=not spec.command,
        user=spec.user,
    )


def find_disk(spec: JobSpec) -> int:
    """Bytes that each task of a job may have on disk; 0 is no bound."""
    return int(parse_quantity(DISK if spec.disk == "" else spec.disk, "disk"))


def bound_disk(spec: JobSpec, default: str, most: str) -> JobSpec:
    """The job with the disk that an operator gives it, or refused if it wants more than that."""
    if spec.disk == "":
        spec = msgspec.structs.replace(spec, disk=default or DISK)
    asked = find_disk(spec)
    if most and not 0 < asked <= parse_quantity(most, "disk"):
        sentence = f"expected a bound of at most {most}, as the operator has set, got {spec.disk!r}"
        raise FieldError("disk", sentence)
    return spec


def requirements(resources: Resources, spec: JobSpec) -> tuple[Vector, tuple[Constraint, ...]]:
    """What a job asks for, in exact amounts and parsed constraints; a field that cannot be read is
    refused."""
    for name in spec.resources:
        if name not in resources.names:
            raise FieldError(
                f"resources.{name}", f"unknown resource; {did_you_mean(name, resources.names)}"
            )
    request = tuple(_amount(resources, name, spec) for name in resources.names)
    constraints = [_constraint(k, text) for k, text in enumerate(spec.constraints)]
    return request, (*constraints, *map(_has_volume, spec.volumes), *_has_image(spec.image))


def _has_volume(volume: VolumeMount) -> Constraint:
    """A node says which volumes it has, and which can be written to, by its attributes."""
    wanted = "exists" if volume.read_only else "= rw"
    return parse_constraint(f"{VOLUME_ATTRIBUTE}{volume.name} {wanted}", "volumes")


def _has_image(image: str) -> Iterator[Constraint]:
    """A node says which images it has by its attributes, too."""
    if parts := IMAGE.fullmatch(image):
        yield parse_constraint(f"{IMAGE_ATTRIBUTE}{parts['name']} exists", "image")


def _amount(resources: Resources, name: str, spec: JobSpec) -> int:
    with _about(f"resources.{name}") as field:
        return resources.exact(name, spec.resources.get(name, 0), field)


def _constraint(k: int, text: str) -> Constraint:
    with _about(f"constraints[{k}]") as field:
        return parse_constraint(text, field)


@contextmanager
def _about(name: str) -> Iterator[str]:
    """What is said against bad input in here is said of this field."""
    try:
        yield name
    except InputError as error:
        raise FieldError(name, str(error).removeprefix(f"{name}: ")) from error
