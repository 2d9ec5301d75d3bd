"""What each row of a reproduction stands for: the paper, the place in it, whose quantity it is, and
why its tolerance is what it is.

A row is judged by the experiment that makes it. Here it is said, by its name, what the judgement is
worth: a number of the paper within a tolerance is worth more than a sign, and a comparison with our
own other runs says nothing about the paper at all. They are counted apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The papers, by the first word of an experiment's name.
PAPERS = {
    "mss": "Konwinski, Multi-agent Cluster Scheduling for Scalability and Flexibility",
    "masb": "Sliwko and Getov, Decentralised Workload Scheduler for Resource Allocation",
    "swarm": "Rusek and Dwornicki, Swarm-Like Distributed Algorithm",
    "depas": "Caprarescu and Petcu, Decentralized Probabilistic Auto-Scaling",
    "kapellmeister": "Velikanov et al., Kapellmeister",
}
FIRST_WORDS = {"dps": "mss", "rss": "mss", "sharing": "mss", "locality": "mss"}

#: Whose quantity it is, from the strongest.
NUMBER, WORDS, THEORY, OWN, UNKNOWN = "number", "words", "theory", "own", "unknown"
BASES = {
    NUMBER: "a number of the paper, within a tolerance",
    WORDS: "the paper says it in words; the band is ours",
    THEORY: "a formula; the paper shows a curve without numbers",
    OWN: "our own runs or demands; not in the paper",
    UNKNOWN: "not classified",
}


@dataclass(frozen=True)
class ClaimKind:
    """Rows whose name matches `pattern`: where in the paper, whose quantity, and the argument for
    the tolerance."""

    pattern: str
    where: str
    basis: str
    tolerance: str


SIGN = "a sign: any difference in this direction holds"
WITHIN_10 = "10 %, or inside the interval of the replicates"
PK = ClaimKind(
    "Pollaczek–Khinchine|formula",
    "figure 3.3 shows the curve",
    THEORY,
    WITHIN_10,
)
FIDELITY = ClaimKind(
    "", "not in the paper", OWN, "the message-level agents' spread over the same seeds"
)
THREE_POINTS = (
    "3 points where the paper has 3 % or more, else a factor of 3: other days of the same trace "
    "differ by as much"
)
CLAIMS: dict[str, tuple[ClaimKind, ...]] = {
    "mss-single": (PK, ClaimKind("SLO", "figure 3.3, left", THEORY, "the same point of the grid")),
    "mss-multi": (
        PK,
        ClaimKind("well below|busyness below|stuck behind", "section 3.2, figure 3.3", WORDS, SIGN),
    ),
    "mss-arrivals": (PK, ClaimKind("", "figure 3.4", THEORY, WITHIN_10)),
    "dps": (
        ClaimKind("busyness like", "section 4.3, figure 4.4", OWN, f"multi-path here, {WITHIN_10}"),
        ClaimKind("take longer", "section 4.3", WORDS, SIGN),
    ),
    "rss": (
        ClaimKind("batch wait", "section 6.3, figure 6.4", WORDS, "1.1 times our other runs"),
        ClaimKind("interference", "section 6.3, figure 6.4", WORDS, "1.5 times our own multi-path"),
    ),
    "rss-modes": (ClaimKind("", "section 6.3, figure 6.5", WORDS, SIGN),),
    "dps-model": (
        ClaimKind("^slots", "table 4.1", THEORY, "20 %; the formula's own variables"),
        ClaimKind("^master", "table 4.1", NUMBER, "20 % or the interval of the replicates"),
        ClaimKind("lottery", "section 4.7", NUMBER, "20 % or the interval of the replicates"),
        ClaimKind("full of long|reserv|short", "section 4.8", NUMBER, "20 % or the interval"),
        ClaimKind("idle share|waste|fragment", "section 4.10", NUMBER, "the paper's bound"),
        ClaimKind("", "section 4.10", WORDS, SIGN),
    ),
    "sharing": (
        ClaimKind("Facebook", "table 5.3", NUMBER, "one draw of the replicates: 95 % prediction"),
        ClaimKind("who gains", "table 5.3", WORDS, "the order"),
        ClaimKind("speed-up", "tables 5.3 and 5.4", NUMBER, "15 %; the paper ran it once"),
        ClaimKind(r"\(set\)", "table 5.4", OWN, "set, from the paper's static runs"),
        ClaimKind("", "section 5.5", NUMBER, "as the row says"),
    ),
    "locality": (
        ClaimKind("faster", "figure 5.7", NUMBER, "10 %; by the chosen remote cost"),
        ClaimKind("", "figure 5.7", NUMBER, "3 points, or the paper's side of a bound"),
    ),
    "swarm-three-nodes": (
        ClaimKind("both rules", "section 5, figure 1", NUMBER, "10 %"),
        ClaimKind("never", "section 5", WORDS, "none may"),
        ClaimKind(
            "", "section 4, figure 1", NUMBER, "a factor of 1.5: a real cluster, one histogram"
        ),
    ),
    "swarm-distribution": (
        ClaimKind("mean time", "section 5, figure 2", NUMBER, "10 %, read off a histogram"),
        ClaimKind("mean of the three", "section 5", NUMBER, "10 % of 1.8: 62 to 98 % more"),
        ClaimKind("beyond the fewest", "section 5", NUMBER, "shown by filling"),
        ClaimKind("tail", "figure 2", WORDS, SIGN),
        ClaimKind("never", "section 5", WORDS, "none may"),
    ),
    "swarm-scaling": (
        ClaimKind("mean time", "figure 3", NUMBER, "10 %, read off a plot"),
        ClaimKind("R²", "figure 3", WORDS, "a straight line: R² of 0.98"),
        ClaimKind("linear", "section 6.5", NUMBER, "10 %"),
        ClaimKind("chord", "section 7, left as future work", OWN, "O(log N)"),
        ClaimKind("ring", "section 5", WORDS, "a factor of 4 in all"),
        ClaimKind("", "section 5", OWN, "shown"),
    ),
    "swarm-model": (ClaimKind("", "section 3", THEORY, "the same sign or point, exactly"),),
    "kapellmeister-schedule": (
        ClaimKind("figure 12", "figure 12", NUMBER, "15 points, power 2: one run, read off bars"),
        ClaimKind("figure 13", "figure 13", NUMBER, "15 points, power 2; counts a factor of 1.5"),
        ClaimKind("here", "not in the paper", OWN, "no worse; better, or proved that nothing is"),
    ),
    "kapellmeister-reschedule": (
        ClaimKind(
            "against scheduling from scratch", "figure 15", NUMBER, "15 points; moves: at least"
        ),
        ClaimKind("", "not in the paper", OWN, "shown"),
    ),
    "masb-spikes": (
        ClaimKind("most in one minute", "table 2", NUMBER, "a factor of 2, as for the means"),
        ClaimKind("rises", "table 2", NUMBER, "a factor of 2; the preset was calibrated to them"),
    ),
    "masb-benchmark": (
        ClaimKind("requests that find", "section 6.5", NUMBER, "half to twice the paper's 6–8 %"),
        ClaimKind(": PA to DA$", "table 3", NUMBER, "2.5 to 3.7: 3 points of each either way"),
        ClaimKind("negotiation, .* nodes", "table 3", NUMBER, THREE_POINTS),
        ClaimKind("overloaded nodes .below", "table 3", NUMBER, "the paper's limit of 0.5 %"),
        ClaimKind("PA to DA", "table 3", OWN, f"four schedulers of ours for Borg; {SIGN}"),
        ClaimKind("overloaded nodes", "not in the paper", OWN, "shown"),
    ),
    "masb-performance": (
        ClaimKind("above that", "table 4", WORDS, SIGN),
        ClaimKind("overloaded", "table 4", NUMBER, "the same side of the paper's limit of 0.5 %"),
        ClaimKind("used|guaranteed", "section 7.1", OWN, "2 points; the generator is set to them"),
    ),
    "masb-compaction": (
        ClaimKind("above that", "table 5", WORDS, SIGN),
        ClaimKind("overloaded", "table 5", NUMBER, "the same side of the paper's limit of 0.5 %"),
    ),
    "masb-migration-cost": (
        ClaimKind("GB moved", "table 6", NUMBER, "shown: another quantity than the paper's"),
        ClaimKind("cheapest", "table 6", WORDS, "the same pair"),
        ClaimKind("dearer", "table 6", NUMBER, "at least twice; the paper has 4.7"),
    ),
    "masb-scalability": (
        ClaimKind("overloaded .below", "table 7", NUMBER, "the paper's limit of 0.5 %"),
        ClaimKind("as in the smallest", "table 7", WORDS, "3 points of our own smallest cell"),
    ),
    "masb-options": (ClaimKind("", "section 9, left as future work", OWN, SIGN),),
    "masb-google": (
        ClaimKind("collisions|requests that find", "section 6.5", NUMBER, "the paper's 6–8 %"),
        ClaimKind("guaranteed|used", "section 7.1", OWN, "2 points; use is scaled to them"),
        ClaimKind("", "table 3", NUMBER, "3 points of each share, the spread of other days"),
    ),
    "masb-google-capacity": (
        ClaimKind("at which", "tables 4 and 5", NUMBER, "101–104 % load, 97–99 % of nodes"),
        ClaimKind("", "tables 4 and 5", OWN, "shown"),
    ),
    "masb-google-volume": (
        ClaimKind("moves more", "table 6", NUMBER, "half to twice the paper's factor"),
        ClaimKind("", "table 6", NUMBER, "a fifth of the paper's volume"),
    ),
    "masb-google-options": (ClaimKind("", "section 9, left as future work", OWN, SIGN),),
    "masb-fidelities": (FIDELITY,),
    "swarm-fidelities": (FIDELITY,),
    "depas-fidelities": (FIDELITY,),
    "depas": (
        ClaimKind(
            "one cycle|cycle:|expected", "section II", THEORY, "the interval of the replicates"
        ),
        ClaimKind(
            "crash|loss|lost|up to|take .* to start", "not in the paper", OWN, "settled by then"
        ),
        ClaimKind("oscillations", "section III", NUMBER, "none"),
        ClaimKind("", "section III, figures 2 and 3", WORDS, "180 s, set after seeing a run"),
    ),
}


def find_paper(experiment: str) -> str:
    """The paper of an experiment."""
    word = experiment.split("-")[0]
    return PAPERS.get(FIRST_WORDS.get(word, word), "")


def classify(experiment: str, quantity: str) -> ClaimKind:
    """What a row of an experiment stands for."""
    for kind in CLAIMS.get(experiment, ()):
        if re.search(kind.pattern, quantity):
            return kind
    return ClaimKind("", "", UNKNOWN, "")
