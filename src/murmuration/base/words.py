"""Words of sentences: a count with its noun, and what a person calls a library's types."""

from __future__ import annotations

import re


def count_of(number: int, noun: str, verb: str = "") -> str:
    """`1 task`, `12,000 tasks`; with a verb in the plural `1 task moves`, `2 tasks move`."""
    if number == 1:
        verb = {"": "", "are": "is"}.get(verb, f"{verb}s")
    elif noun:
        noun = f"{noun}s"
    return " ".join(word for word in (f"{number:,}", noun, verb) if word)


#: What msgspec calls a type, and what a person does.
TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "array": "a list",
    "object": "a table",
    "bool": "true or false",
    "null": "nothing",
}


def plain_types(sentence: str) -> str:
    """`expected `int | null`, got `str`` as `expected a whole number or nothing, got text`."""

    def name(match: re.Match[str]) -> str:
        parts = [part.strip() for part in match[1].split("|")]
        if not all(part in TYPES for part in parts):
            return match[1]
        # A whole number is a number, and of a number and text either is meant.
        words = [TYPES[part] for part in parts if not (part == "int" and "float" in parts)]
        return " or ".join(words)

    return re.sub(r"`([^`]+)`", name, sentence)
