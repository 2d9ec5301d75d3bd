"""Rate files: numbers or dates, with or without a header; gaps, unsorted times and nonsense are
named by their line."""

from __future__ import annotations

from pathlib import Path

import pytest

from murmuration.base.errors import InputError
from murmuration.workload import rates

PUBLISHED = Path(__file__).resolve().parents[3] / "shared" / "data" / "request-rates"


def written(folder: Path, text: str) -> Path:
    path = folder / "rate.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text", ["time_s,rate\n10,5\n20,7\n30,6\n", "10,5\n20,7\n30,6", "10\n10, 5\n20, 7\n\n30, 6\n"]
)
def test_a_header_or_a_step_in_front_is_skipped(tmp_path: Path, text: str) -> None:
    found = rates.read(written(tmp_path, text))
    assert found.time_s.tolist() == [0, 10, 20]
    assert found.rate.tolist() == [5, 7, 6]
    assert found.end_s == 30


def test_dates_and_times(tmp_path: Path) -> None:
    found = rates.read(
        written(tmp_path, "timestamp,value\n2014-04-10 00:04:00,94\n2014-04-10 00:09:00,56\n")
    )
    assert (found.time_s.tolist(), found.end_s) == ([0, 300], 600)


def test_single_requests_are_counted(tmp_path: Path) -> None:
    found = rates.read(written(tmp_path, "TIMESTAMP,tokens\n5,1\n6,1\n6,2\n17,1\n"), count_s=10)
    assert found.rate.tolist() == [0.3, 0.1]


def test_steps_of_any_length_are_no_gaps(tmp_path: Path) -> None:
    assert rates.read(written(tmp_path, "0,70\n200,300\n500,800\n1100,2200\n")).end_s == 1300


REGULAR = "".join(f"{60 * k},{k}\n" for k in range(20))
BAD = {
    "a gap": (REGULAR + "1500,3\n", ["line 21", "a gap of 360 s", "60 s apart", "hold"]),
    "unsorted": (REGULAR + "30,3\n", ["line 21", "expected times that rise"]),
    "twice": ("0,1\n0,2\n", ["line 2", "expected times that rise"]),
    "missing rate": ("0,1\n60,\n", ["line 2", "expected a rate", "gap"]),
    "no number": ("0,1\n60,many\n", ["line 2", "expected a rate, got 'many'"]),
    "negative": ("0,1\n60,-2\n", ["line 2", "from 0"]),
    "nan": ("0,1\n60,nan\n", ["line 2", "from 0"]),
    "no time": ("0,1\nlater,2\n", ["line 2", "expected a time", "'later'"]),
    "empty": ("", ["the file is empty"]),
    "header alone": ("time_s,rate\n", ["expected lines of time and rate"]),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_gets_one_sentence(tmp_path: Path, what: str) -> None:
    text, words = BAD[what]
    with pytest.raises(InputError) as caught:
        rates.read(written(tmp_path, text))
    for word in ["rate.csv", *words]:
        assert word in str(caught.value)


def test_gaps_can_be_held(tmp_path: Path) -> None:
    found = rates.read(written(tmp_path, BAD["a gap"][0]), hold_gaps=True)
    assert (found.time_s[-1], found.rate[-2]) == (1500, 19)


@pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="the published series are not beside this checkout"
)
@pytest.mark.parametrize(
    "name", ["clarknet-http-100s.csv", "epa-http-100s.csv", "nyc_taxi_demand.csv"]
)
def test_published_series_are_read(name: str) -> None:
    found = rates.read(PUBLISHED / name)
    assert len(found.time_s) > 800
    assert found.rate.max() > 0


@pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="the published series are not beside this checkout"
)
def test_a_published_series_with_gaps_says_so() -> None:
    path = PUBLISHED / "aws-elb_request_count_8c0756.csv"
    with pytest.raises(
        InputError, match=r"line [0-9]+: a gap of 600 s where samples are 300 s apart"
    ):
        rates.read(path)
    assert rates.read(path, hold_gaps=True).end_s > 1e6
    assert rates.read(PUBLISHED / "azure-llm-2023-code.csv.xz", count_s=60).rate.sum() * 60 == 8819
