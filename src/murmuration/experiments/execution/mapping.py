"""One function for many items: one after the other, on local processes, or on a Ray cluster."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from murmuration.base.errors import InputError
from murmuration.base.extras import install_hint
from murmuration.experiments.execution.workers import Workers, borrow_workers

T = TypeVar("T")
Answer = TypeVar("Answer")


def map_items(
    function: Callable[[T], Answer],
    items: Sequence[T],
    workers: int | Workers,
    on: str | None = None,
) -> Iterator[tuple[int, Answer]]:
    """The answer to every item as soon as it is there, with the item's place: on Ray if `on` says
    where, otherwise on so many workers. Functions and items are sent by pickling."""
    if on is not None:
        yield from _on_ray(function, items, on)
        return
    with borrow_workers(workers) as borrowed:
        if borrowed.count <= 1 or (len(items) <= 1 and not borrowed.started):
            for place, item in enumerate(items):
                yield place, function(item)
        else:
            yield from _on_processes(function, items, borrowed)


def _on_processes(
    function: Callable[[T], Answer], items: Sequence[T], workers: Workers
) -> Iterator[tuple[int, Answer]]:
    """Hand out one item to each worker, and the next to whoever is free."""
    from concurrent.futures import FIRST_COMPLETED, Future, wait

    queue, under_way = enumerate(items), dict[Future[Answer], int]()

    def hand_out(count: int) -> None:
        for place, item in itertools.islice(queue, count):
            under_way[workers.submit(function, item)] = place

    try:
        hand_out(workers.count)
        while under_way:
            ended, _ = wait(under_way, return_when=FIRST_COMPLETED)
            hand_out(len(ended))
            for future in ended:
                yield under_way.pop(future), future.result()
    except BaseException:
        # The others would go on writing to their folders; these say that they are not complete.
        workers.stop()
        raise


def _on_ray(
    function: Callable[[T], Answer], items: Sequence[T], address: str
) -> Iterator[tuple[int, Answer]]:
    """As Ray tasks: on the cluster at this address, or on one started here for `ray`."""
    try:
        import ray
    except ImportError as error:
        raise InputError(f"--on ray: Ray is not installed; {install_hint('ray')}") from error
    if not ray.is_initialized():
        ray.init(
            address=None if address == "ray" else address,
            log_to_driver=False,
            include_dashboard=False,
        )
    remote: Any = ray.remote(_call)
    waiting = {remote.remote(function, item): place for place, item in enumerate(items)}
    while waiting:
        ready, _ = ray.wait(list(waiting), num_returns=1)
        try:
            answer = ray.get(ready[0])
        except InputError as error:
            # Ray's own has the whole traceback of its worker as its text.
            raise getattr(error, "cause", error) from None
        yield waiting.pop(ready[0]), answer


def _call(function: Callable[[T], Answer], item: T) -> Answer:
    """Ray takes plain functions only, not the partial ones that items are often mapped by."""
    return function(item)
