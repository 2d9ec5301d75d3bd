"""What each row of a reproduction stands for: the paper, the place in it, whose quantity it is, and
why its tolerance is what it is.

A row is judged by the experiment that makes it. Here it is said, by its name, what the judgement is
worth: a number of the paper within a tolerance is worth more than a sign, and a comparison with our
own other runs, or with what a generator was set to, says nothing about the paper at all. They are
counted apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The papers, by the first word of an experiment's name.
PAPERS = {
    "mss": "Konwinski, Multi-agent Cluster Scheduling for Scalability and Flexibility (2012)",
    "masb": "Sliwko and Getov, Decentralised Workload Scheduler for Resource Allocation in "
    "Computational Clusters (2018)",
    "swarm": "Rusek and Dwornicki, Swarm-Like Distributed Algorithm for Scheduling a "
    "Microservice-Based Application to the Cloud Servers (2021)",
    "depas": "Caprarescu and Petcu, Decentralized Probabilistic Auto-Scaling for Heterogeneous "
    "Systems",
    "kapellmeister": "Velikanov et al., Kapellmeister: Multi-Objective Optimization of Container "
    "Allocation and Rescheduling with Genetic Algorithm",
}
FIRST_WORDS = {"dps": "mss", "rss": "mss", "sharing": "mss", "locality": "mss"}

#: Whose quantity it is, from the strongest.
NUMBER, THEORY, WORDS, SIGN = "number", "theory", "words", "sign"
OWN, UNKNOWN = "own", "unknown"
BASES = {
    NUMBER: "a number of the paper, within a tolerance",
    THEORY: "a formula; the paper shows a curve without numbers",
    WORDS: "the paper says it in words; the band is ours",
    SIGN: "the paper says which way; any difference that way holds",
    OWN: "our own runs or demands, or what a generator was set to; not in the paper",
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


ANY = "any difference in this direction"
NOT_IN_PAPER = "not in the paper"
SHOWN = "shown, not judged"
NEAR_FORMULA = (
    "10 %, or the 95 % interval of the replicates, which is not judged if wider than 20 % each way"
)
PK = ClaimKind("Pollaczek–Khinchine|formula", "figure 3.3 shows the curve", THEORY, NEAR_FORMULA)
FIDELITY = ClaimKind("", NOT_IN_PAPER, OWN, "10 % and two standard errors of the difference")
PAIRED = ClaimKind(
    "", NOT_IN_PAPER, OWN, "the whole 95 % interval of the paired differences, as the row says"
)
SHARE = (
    "3 points, the spread of other days of the same trace, and at most half of the share; below "
    "3 % within a factor of 3, as 3 points would hold at any value"
)
OVERLOAD = "the paper's side of its limit of 0.5 %, and within a factor of 3"
SPIKE = "a factor of 2: the changes of use are made up"
CRASHED = "settled within 180 s, as the paper's own steps"
VOLUMES = (
    ClaimKind("moves more", "table 6", NUMBER, "a factor of 2"),
    ClaimKind("cheapest", "table 6", NUMBER, "the same pair"),
    ClaimKind("", "table 6", NUMBER, "20 %: the paper's two plain pairs differ by 19 %"),
)
CLAIMS: dict[str, tuple[ClaimKind, ...]] = {
    "mss-single": (PK, ClaimKind("SLO", "figure 3.3, left", THEORY, "the same point of the grid")),
    "mss-multi": (
        PK,
        ClaimKind("well below", "section 3.2, figure 3.3", WORDS, "half of our own single-path's"),
        ClaimKind("stuck behind", "section 3.2, figure 3.3", WORDS, "10 times our own fastest"),
        ClaimKind("busyness below", "section 3.2, figure 3.3", SIGN, ANY),
    ),
    "mss-arrivals": (
        ClaimKind("saturates", "figure 3.4", THEORY, "the same point of the grid"),
        ClaimKind("", "figure 3.4", THEORY, f"{NEAR_FORMULA}; 40,000 empty nodes, not the cell"),
    ),
    "dps": (
        ClaimKind("one attempt", "section 4.3, figure 4.4", THEORY, NEAR_FORMULA),
        ClaimKind("take longer", "section 4.3", SIGN, ANY),
    ),
    "rss": (
        ClaimKind("batch jobs alone", "section 6.3, figure 6.4", THEORY, NEAR_FORMULA),
        ClaimKind("no longer", "section 6.3, figure 6.4", SIGN, ANY),
        ClaimKind(
            "one attempt",
            "section 6.3, figure 6.4",
            WORDS,
            "limited: at most half as much again as one attempt for each job",
        ),
    ),
    "rss-modes": (
        ClaimKind("at least", "section 6.3, figure 6.5", WORDS, "steep: at least twice"),
        ClaimKind("", "section 6.3, figure 6.5", SIGN, ANY),
    ),
    "dps-model": (
        ClaimKind("^slots", "table 4.1", OWN, "2 %; the formula on its own random variables"),
        ClaimKind("^master.*at most", "table 4.1", NUMBER, "the paper's bound"),
        ClaimKind("^master", "table 4.1", NUMBER, "2 %, or the interval if within 20 %"),
        ClaimKind("lottery", "section 4.7", NUMBER, "2 %, or the interval if within 20 %"),
        ClaimKind("full of long", "section 4.8", NUMBER, "2 %, or the interval if within 20 %"),
        ClaimKind("wait of a task", "section 4.8", WORDS, "long: above the task's own length"),
        ClaimKind("reserved", "section 4.8", WORDS, "short: a tenth of the task's own length"),
        ClaimKind(
            "idle share", "section 4.10", NUMBER, "the paper's bound, on the greatest of all"
        ),
        ClaimKind("CPU in use", NOT_IN_PAPER, OWN, SHOWN),
        ClaimKind("ever started", "section 4.10", WORDS, "none"),
        ClaimKind("", "section 4.10", SIGN, "any at all"),
    ),
    "sharing": (
        ClaimKind(
            "speed-up of Facebook",
            "table 5.3",
            NUMBER,
            "95 % of single draws of the workload: the paper is one order of the jobs",
        ),
        ClaimKind("who gains", "table 5.3", WORDS, "who gains most, and who loses"),
        ClaimKind("small Facebook|large Facebook", "table 5.4", SIGN, "the whole interval"),
        ClaimKind("speed-up", "tables 5.3 and 5.4", NUMBER, "15 %: the paper ran it once"),
        ClaimKind(r"\(set\)", "table 5.4", OWN, "set, from the paper's static runs"),
        ClaimKind("allocated", "section 5.5.2", SIGN, "the whole interval; allocated, not used"),
        ClaimKind("gang", "section 5.5", NUMBER, "half: the paper's 12 s starts daemons too"),
    ),
    "locality": (
        ClaimKind("faster.*5 s", "figure 5.7", OWN, "15 %, decided by the chosen remote cost"),
        ClaimKind("faster", NOT_IN_PAPER, OWN, SHOWN),
        ClaimKind("without delay", "figure 5.7", SIGN, ANY),
        ClaimKind("static", "figure 5.7", NUMBER, "3 points: the 95 % interval of its one run"),
        ClaimKind("", "figure 5.7", NUMBER, "the paper's number as a bound, less 3 points"),
    ),
    "swarm-three-nodes": (
        ClaimKind("most probable.*both|both.*most probable", "section 5", NUMBER, "exactly"),
        ClaimKind("both rules", "section 5, figure 1", NUMBER, "10 %, read off a histogram"),
        ClaimKind("never", "section 5", WORDS, "none may"),
        ClaimKind(
            "", "section 4, figure 1", NUMBER, "a factor of 1.5: a real cluster, one histogram"
        ),
    ),
    "swarm-distribution": (
        ClaimKind("mean time", "section 5, figure 2", NUMBER, "10 %, read off a histogram"),
        ClaimKind("mean of the three", "section 6.4", NUMBER, "10 %: 72 to 88 % more"),
        ClaimKind("beyond the fewest", "section 6.4", OWN, "shown; the paper has their mean only"),
        ClaimKind("tail", "figure 2", SIGN, ANY),
        ClaimKind("never", "section 5", WORDS, "none may"),
    ),
    "swarm-scaling": (
        ClaimKind("mean time", "figure 3", NUMBER, "10 %, read off a plot"),
        ClaimKind("R²", "figure 3", WORDS, "a straight line: R² of 0.95"),
        ClaimKind("linear.*N = 50:", "section 6.5", SIGN, ANY),
        ClaimKind("linear", "section 6.5", NUMBER, "5 % slower: slower, and within 10 %"),
        ClaimKind("^ring: search", "section 5", WORDS, "N^-0.2 to N^0.05 beside the law"),
        ClaimKind("chord", "section 7, left as future work", OWN, "as the row says, or shown"),
        ClaimKind("", NOT_IN_PAPER, OWN, SHOWN),
    ),
    "swarm-model": (ClaimKind("", "section 3", THEORY, "the same sign or point, exactly"),),
    "kapellmeister-schedule": (
        ClaimKind(
            "figure 13.*left out$",
            "figure 13",
            NUMBER,
            "a factor of 1.5: one run; on the smallest family, which the paper's count fits",
        ),
        ClaimKind("figure 12", "figure 12", NUMBER, "half of the change, at most 15 points"),
        ClaimKind("figure 13", "figure 13", NUMBER, "half of the change, at most 15 points"),
        ClaimKind("here", NOT_IN_PAPER, OWN, "no worse; two better, or proved that nothing is"),
    ),
    "kapellmeister-reschedule": (
        ClaimKind("moved against", "figure 15", NUMBER, "at least; theirs counts what stayed"),
        ClaimKind(
            r"objective [12] .*from scratch",
            "figure 15",
            NUMBER,
            "half of the change, at most 15 points; beside a schedule that left containers out",
        ),
        ClaimKind("was placed", NOT_IN_PAPER, OWN, "all"),
        ClaimKind("", NOT_IN_PAPER, OWN, SHOWN),
    ),
    "masb-spikes": (
        ClaimKind("most in one minute", "table 2", NUMBER, SPIKE),
        ClaimKind(
            "rises", "table 2", OWN, "a third; the generator is set to them, by one law of jumps"
        ),
    ),
    "masb-benchmark": (
        ClaimKind("requests that find", "section 6.5", NUMBER, "half to twice the paper's 6–8 %"),
        ClaimKind(": PA to DA$", "table 3", NUMBER, "2.5 to 3.7: 3 points of each either way"),
        ClaimKind("negotiation, .* nodes", "table 3", NUMBER, SHARE),
        ClaimKind("PA to DA", "table 3", OWN, f"four schedulers of ours for Borg; {ANY}"),
        ClaimKind("overloaded nodes", NOT_IN_PAPER, OWN, SHOWN),
    ),
    "masb-performance": (
        ClaimKind("above that", "table 4", NUMBER, "a factor of 2: a ratio of two small shares"),
        ClaimKind("overloaded", "table 4", NUMBER, OVERLOAD),
        ClaimKind("used|guaranteed", "section 7.7", OWN, "2 points; the generator is set to them"),
    ),
    "masb-compaction": (
        ClaimKind("above that", "table 5", NUMBER, "a factor of 2: a ratio of two small shares"),
        ClaimKind("overloaded", "table 5", NUMBER, OVERLOAD),
    ),
    "masb-scalability": (
        ClaimKind("overloaded nodes$", "table 7", NUMBER, OVERLOAD),
        ClaimKind(
            "as in the smallest",
            "table 7",
            WORDS,
            "a third of our own smallest cell's share and at most 3 points, or 0.03 points: the "
            "paper's own idle and overloaded nodes differ by as much",
        ),
    ),
    "masb-options": (
        ClaimKind("at most|without an answer|placed", NOT_IN_PAPER, OWN, "as the row says; half"),
        ClaimKind("", "section 9, left as future work", OWN, ANY),
    ),
    "masb-google": (
        ClaimKind("requests that find", "section 6.5", NUMBER, "the paper's own 6–8 %"),
        ClaimKind(
            "beside the recorded hour",
            NOT_IN_PAPER,
            OWN,
            "a factor of 1.5: one hour of Google's own machines, their use scaled to the paper's",
        ),
        ClaimKind("rises|most in one minute", "table 2", NUMBER, SPIKE),
        ClaimKind("when agents look", NOT_IN_PAPER, OWN, SHOWN),
        ClaimKind("PA to DA", "table 3", NUMBER, "shown: PA and DA are judged"),
        ClaimKind("", "table 3", NUMBER, SHARE),
    ),
    "masb-google-capacity": (
        ClaimKind(
            "at which.*interpolated",
            "tables 4 and 5",
            NUMBER,
            "one step of the paper's table either way: 2 points of load, 1 of nodes",
        ),
        ClaimKind(
            "at which", "tables 4 and 5", NUMBER, "between the paper's rows around its limit"
        ),
        ClaimKind("nodes 96%", NOT_IN_PAPER, OWN, SHOWN),
        ClaimKind(
            "at the highest load",
            "section 7.5, figure 11",
            SIGN,
            "the whole 95 % interval of the differences of the same days",
        ),
        ClaimKind("[pd]a nodes", "tables 4 and 5", NUMBER, SHARE),
        ClaimKind("", "tables 4 and 5", NUMBER, OVERLOAD),
    ),
    "masb-google-volume": VOLUMES,
    "masb-migration-cost": VOLUMES,
    "masb-google-options": (
        ClaimKind("at most", NOT_IN_PAPER, OWN, "as the row says"),
        ClaimKind("", "section 9, left as future work", OWN, ANY),
    ),
    "masb-optimum": (ClaimKind("", NOT_IN_PAPER, OWN, SHOWN),),
    "masb-fidelities": (PAIRED,),
    "swarm-fidelities": (FIDELITY,),
    "depas-fidelities": (FIDELITY,),
    "depas": (
        ClaimKind("^P\\(inside\\)", "section II", THEORY, "3.3 standard errors"),
        ClaimKind("crash|lost", NOT_IN_PAPER, OWN, CRASHED),
        ClaimKind("oscillations.*start|up to", NOT_IN_PAPER, OWN, f"shown, or {CRASHED}"),
        ClaimKind("oscillations", "section III", NUMBER, "none"),
        ClaimKind(
            "settled after",
            "section III, figure 2",
            WORDS,
            "180 s: a window to see a change and two cycles to answer it; set after seeing a run",
        ),
        ClaimKind("against the trend", "section III", WORDS, "1 % of all actions"),
        ClaimKind("its change", "section III, figure 3", WORDS, "in proportion: 3 points"),
        ClaimKind("", NOT_IN_PAPER, OWN, SHOWN),
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
