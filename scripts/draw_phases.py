"""Draws the diagram of docs/negotiation.md from the table of phases.

python scripts/draw_phases.py     prints it; a test compares it with the page
"""

from __future__ import annotations

from murmuration.schedulers.agent import Wake
from murmuration.schedulers.negotiation.phases import CHOICE, NEXT_PHASES, NegotiationPhase

#: How the page names what is no message of the protocol.
WORDS = {Wake.__name__: "no answer in time"}


def name_of(phase: NegotiationPhase) -> str:
    return "[*]" if phase is NegotiationPhase.NONE else phase.name


def draw_diagram() -> str:
    """A Mermaid state diagram. What may lead to every phase of a choice is drawn through it."""
    lines = ["stateDiagram-v2", "    state choose <<choice>>"]
    for phase in NegotiationPhase:
        if phase is not NegotiationPhase.NONE:
            lines.append(f"    {phase.name}: waits for {phase.value}")
    for (phase, message), targets in NEXT_PHASES.items():
        word = WORDS.get(message.__name__, message.__name__)
        if phase is NegotiationPhase.NONE and message is Wake:
            word = "the agent starts, or off-loads"
        direct = targets
        if targets >= CHOICE:
            lines.append(f"    {name_of(phase)} --> choose: {word}")
            direct = targets - CHOICE
        for target in NegotiationPhase:
            if target in direct:
                lines.append(f"    {name_of(phase)} --> {name_of(target)}: {word}")
    lines += [
        f"    choose --> {name_of(target)}" for target in NegotiationPhase if target in CHOICE
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(draw_diagram())
