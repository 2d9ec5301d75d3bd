"""Two schedulers of one's own on a live cluster: one by offers, one by optimistic transactions.

murmur up --detach && .venv/bin/python examples/outside_scheduler.py
"""

from murmuration import OfferScheduler, SharedStateScheduler

SIZE = {"cpu": 0.25, "memory": "16Mi"}


class Sharded(OfferScheduler):
    """Runs four shards, no more than two on a node of an offer, and those that fail once more."""

    def __init__(self, name):
        super().__init__(name)
        self.todo = [0, 1, 2, 3]
        self.tries = {}

    def resource_offer(self, offer):
        tasks = []
        for part in offer.slices:
            for shard in self.todo[:2]:
                self.todo.remove(shard)
                self.tries[shard] = self.tries.get(shard, 0) + 1
                # Shard 2 fails at its first try.
                command = ["sh", "-c", f"test {shard} -ne 2 -o {self.tries[shard]} -gt 1"]
                tasks.append(
                    self.new_task(f"shard-{shard}-{self.tries[shard]}", part.node, command, SIZE)
                )
        self.set_needs_offers(bool(self.todo))
        return tasks

    def status_update(self, update):
        shard = int(update.task.split("-")[1])
        if update.status == "failed":
            self.todo.append(shard)
            self.set_needs_offers(True)
        elif update.status == "finished":
            self.tries[shard] = -self.tries[shard]
        if all(tries < 0 for tries in self.tries.values()) and len(self.tries) == 4:
            self.stop()


with Sharded("sharded") as scheduler:
    scheduler.set_needs_offers(True)
    scheduler.run(seconds=30)
    print(
        "by offers:", {shard: f"{-tries} tries" for shard, tries in sorted(scheduler.tries.items())}
    )
    scheduler.unregister()

with SharedStateScheduler("omega") as scheduler:
    view = scheduler.sync()
    emptiest = view.names[view.free[:, 0].argmax()]
    mine = [scheduler.new_task(f"task-{k}", emptiest, ["true"], SIZE) for k in range(2)]
    huge = scheduler.new_task("huge", emptiest, ["true"], {"cpu": 1000})
    outcome = scheduler.commit([*mine, huge])
    print(
        "by transactions:",
        sorted(outcome.accepted),
        "accepted,",
        sorted(outcome.refused),
        "refused",
    )
    ended = scheduler.wait_for(outcome.accepted)
    print("and ended:", sorted(f"{task} {update.status}" for task, update in ended.items()))
