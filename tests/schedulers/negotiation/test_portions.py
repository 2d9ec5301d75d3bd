"""New tasks ask in portions: never more at a time than the setting says, in the order in which they
came, and nobody waits for one that found no node."""

from __future__ import annotations

from tests.schedulers.negotiation.builders import Said, asks_for_room, entry, task, tell

from murmuration.schedulers.agent import Wake
from murmuration.schedulers.negotiation import messages as m
from murmuration.schedulers.negotiation.entry_agent import EntryAgent
from murmuration.schedulers.negotiation.settings import NegotiationSettings

TASKS = [task(f"t{k}") for k in range(5)]


def submit(portion: int) -> tuple[EntryAgent, list[str]]:
    """An entry agent that has just been told five tasks, and those it asks about."""
    agent = entry(NegotiationSettings(portion=portion))
    return agent, [name for new in TASKS for name in asked(tell(agent, m.SubmitTask(new), 1.0))]


def asked(said: Said) -> list[str]:
    return [each.task.name for _, each in said if isinstance(each, m.GetCandidateNodesRequest)]


def test_as_many_ask_as_the_setting_says() -> None:
    assert submit(portion=2)[1] == ["t0", "t1"]
    assert submit(portion=0)[1] == ["t0", "t1", "t2", "t3", "t4"]


def test_whoever_has_room_lets_the_next_one_ask() -> None:
    agent, _ = submit(portion=2)
    request = asks_for_room(agent, TASKS[1], 2.0, "a")
    assert asked(tell(agent, Wake(), 2.0)) == []
    tell(agent, m.TaskMigrationProcessConfirmationResponse("a", request.migration), 3.0)
    assert agent.due <= 3.0
    assert asked(tell(agent, Wake(), 3.0)) == ["t2"]


def test_nobody_waits_for_a_task_that_found_no_node() -> None:
    agent, names = submit(portion=1)
    for number, _ in enumerate(TASKS):
        none = m.GetCandidateNodesResponse("broker", agent.negotiations[names[-1]].number, ())
        tell(agent, none, 2.0 + number)
        names += asked(tell(agent, Wake(), 2.0 + number))
    assert names == ["t0", "t1", "t2", "t3", "t4"]
    # After a pause the first one asks again.
    assert asked(tell(agent, Wake(), 2.0 + agent.settings.report_s)) == ["t0"]
