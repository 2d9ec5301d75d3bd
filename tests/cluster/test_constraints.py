"""Constraints: what people write, which nodes meet it, and that what is printed reads back the
same."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from murmuration.base.errors import InputError
from murmuration.cluster.constraints import (
    Attributes,
    Constraint,
    as_value,
    node_mask,
    parse_constraint,
)

KEYS = st.from_regex(r"[\w./-]+", fullmatch=True)
WORDS = st.text(
    st.characters(blacklist_characters=",()\"'", blacklist_categories=("Cc", "Cs")), max_size=8
).filter(lambda text: as_value(text) == text)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = WORDS | NUMBERS
CONSTRAINTS = st.one_of(
    st.builds(Constraint, KEYS, st.sampled_from(["=", "!="]), st.tuples(VALUES)),
    st.builds(Constraint, KEYS, st.sampled_from(["<", ">"]), st.tuples(NUMBERS)),
    st.builds(Constraint, KEYS, st.just("in"), st.lists(VALUES, max_size=4).map(tuple)),
    st.builds(Constraint, KEYS, st.just("exists")),
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("zone = a", Constraint("zone", "=", ("a",))),
        ("zone=a", Constraint("zone", "=", ("a",))),
        ("  zone  =  'a b'  ", Constraint("zone", "=", ("a b",))),
        ("zone != a", Constraint("zone", "!=", ("a",))),
        ("zone ≠ a", Constraint("zone", "!=", ("a",))),
        ("generation > 3", Constraint("generation", ">", (3.0,))),
        ("generation<.5e1", Constraint("generation", "<", (5.0,))),
        ("zone in (a, b,3)", Constraint("zone", "in", ("a", "b", 3.0))),
        ("zone in a, b", Constraint("zone", "in", ("a", "b"))),
        ("zone in()", Constraint("zone", "in")),
        ("gpu exists", Constraint("gpu", "exists")),
        ("exists = in", Constraint("exists", "=", ("in",))),
        ("domain = main", Constraint("domain", "=", ("main",))),
        ("node.kubernetes.io/zone-a = 1", Constraint("node.kubernetes.io/zone-a", "=", (1.0,))),
        ("zone = ''", Constraint("zone", "=", ("",))),
    ],
)
def test_the_forms_people_write(text: str, want: Constraint) -> None:
    assert parse_constraint(text) == want


@pytest.mark.parametrize(
    "text",
    [
        "",
        "zone",
        "= a",
        "zone =",
        "zone = ",
        "zone == a",
        "gen >= 3",
        "gen =< 3",
        "zone a",
        "zone in (a",
        "zone in a)",
        "zone in",
        # A word that ends in `in` or `exists`, or goes on after it, is a mistake and not a
        # constraint.
        "main",
        "pinned",
        "gpuexists",
        "zone inside",
        "zone in(a) b",
        "zone exists now",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError) as error:
        parse_constraint(text, "job 7")
    known = "'key = value', '!=', '<', '>', 'key in (a, b)' or 'key exists'"
    assert str(error.value) == f"job 7: expected {known}, got {text!r}"


@pytest.mark.parametrize(
    "text", ["generation < new", "generation > 'x'", "generation < nan", "generation > 1e999"]
)
def test_an_order_needs_a_number(text: str) -> None:
    with pytest.raises(InputError, match=r"^constraint: expected a number after '[<>]', got"):
        parse_constraint(text)


NODE: Attributes = {"zone": "a", "generation": 4.0, "cores": 8, "disk": "10"}


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("zone = a", True),
        ("zone = b", False),
        ("zone != a", False),
        ("zone != b", True),
        ("generation > 3", True),
        ("generation > 4", False),
        ("generation < 4", False),
        ("generation < 4.5", True),
        ("generation = 4", True),
        ("cores = 8", True),
        ("cores > 7.9", True),
        ("cores in (2, 4, 8)", True),
        ("zone in (b, a)", True),
        ("zone in (b, c)", False),
        ("zone in ()", False),
        ("zone exists", True),
        # A word has no order.
        ("zone > 0", False),
        ("zone < 0", False),
    ],
)
def test_a_node_meets_a_constraint(text: str, met: bool) -> None:
    assert parse_constraint(text).meets(NODE) is met


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("rack = 1", False),
        ("rack != 1", True),
        ("rack < 1", False),
        ("rack > 1", False),
        ("rack in (1)", False),
        ("rack exists", False),
    ],
)
def test_a_node_without_the_attribute_meets_only_unequal(text: str, met: bool) -> None:
    assert parse_constraint(text).meets(NODE) is met


def test_a_mask_keeps_the_nodes_that_meet_all() -> None:
    nodes: list[Attributes] = [
        {"zone": "a", "gen": 1.0},
        {"zone": "a", "gen": 2.0},
        {"zone": "b", "gen": 2.0},
        {},
    ]
    both = [parse_constraint("zone = a"), parse_constraint("gen > 1")]
    assert node_mask(both, nodes).tolist() == [False, True, False, False]
    assert node_mask([], nodes).tolist() == [True] * 4
    assert node_mask(both, []).tolist() == []


@given(CONSTRAINTS)
@example(Constraint("a", "=", ("",)))
@example(Constraint("a", "in", ("", 0.1, -0.0)))
@example(Constraint("a", "<", (1e22,)))
def test_what_is_printed_reads_back_the_same(constraint: Constraint) -> None:
    assert parse_constraint(str(constraint)) == constraint


@given(
    st.sampled_from([" = ", "!=", "≠ ", " <", "> ", " in (", " in ", " exists"]),
    st.text("ai ='\"<,)0.e9+-\n", max_size=9),
)
@example(" = ", "' 3 '")
@example(" in ", "('', ' b')")
@example(" in ", "b,")
def test_whatever_is_understood_reads_back_the_same(operator: str, rest: str) -> None:
    try:
        first = parse_constraint(f"a{operator}{rest}")
    except InputError:
        return
    assert parse_constraint(str(first)) == first


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3.0), ("3.0", 3.0), (" '3' ", 3.0), ("-1e2", -100.0), ("1e999", "1e999")],
)
def test_numbers_are_numbers_however_they_are_written(text: str, value: str | float) -> None:
    assert as_value(text) == value


@pytest.mark.parametrize("word", ["nan", "inf", "infinity", "1_000", "0x10", "1.2.3", "v3"])
def test_words_that_python_might_read_as_numbers_stay_words(word: str) -> None:
    assert as_value(word) == word
