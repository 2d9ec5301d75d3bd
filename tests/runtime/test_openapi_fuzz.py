"""The API under requests made from its own OpenAPI document: whatever is asked is answered as the
document says, and never with a server's error.

The nodes are emulated: what is submitted runs nothing.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from tests.runtime.clusters import CPU, WAIT_S, LiveCluster, live_cluster

from murmuration.runtime.master.api import ROUTES
from murmuration.runtime.options import EmulatedNode

schemathesis = pytest.importorskip("schemathesis")

EXAMPLES = 20
#: These let a request wait for something to happen; nothing would.
WAITING = ("follow", "wait_s")
checks = pytest.importorskip("schemathesis.specs.openapi.checks")
#: Names have rules of their own that a schema does not tell, so what fits it may be refused. And a
#: header of ours in place of a made up one is taken for a made up one that was let in.
EXCLUDED = [checks.positive_data_acceptance, checks.ignored_auth]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    nodes = [EmulatedNode(f"e{k}", {"cpu": 4 * CPU, "memory": 2**32}) for k in range(3)]
    folder = tmp_path_factory.mktemp("fuzz") / "cluster"
    with live_cluster(folder, agents=1, rate_limit=1e6, agent={"emulated": nodes}) as made:
        made.submit("known", "true")
        yield made


@pytest.fixture(scope="module")
def schema(cluster: LiveCluster) -> Any:
    return schemathesis.openapi.from_url(f"{cluster.url}/openapi.json")


def operations() -> list[tuple[str, str]]:
    return [(route.method, route.path) for route in ROUTES]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("method", "path"), operations())
def test_the_api_answers_as_its_document_says(
    cluster: LiveCluster, schema: Any, method: str, path: str
) -> None:
    operation = schema[path][method]
    headers = {"Authorization": f"Bearer {cluster.token}"}

    @hypothesis.settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    )
    @hypothesis.given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        for name in WAITING:
            (case.query or {}).pop(name, None)
        case.call_and_validate(headers=headers, excluded_checks=EXCLUDED)

    ask()


@pytest.mark.parametrize(("method", "path"), operations())
def test_nothing_is_answered_without_a_token(cluster: LiveCluster, method: str, path: str) -> None:
    address = cluster.client.address
    connection = http.client.HTTPConnection(address.host, address.port, timeout=WAIT_S)
    while True:
        connection.request(method, path.replace("{", "").replace("}", ""))
        answer = connection.getresponse()
        answer.read()
        # Who shows no token may not ask often either.
        if answer.status != 429:
            break
        time.sleep(int(answer.headers["retry-after"]))
    connection.close()
    assert answer.status == 401


@pytest.mark.parametrize(("method", "path"), [pair for pair in operations() if pair[0] != "GET"])
@pytest.mark.parametrize("body", [b'{"name": "\xff\xfe"}', b"\x00", b"[" * 5000, b"{}", b"7"])
def test_bodies_that_cannot_be_read_are_the_senders_fault(
    cluster: LiveCluster, method: str, path: str, body: bytes
) -> None:
    address = cluster.client.address
    connection = http.client.HTTPConnection(address.host, address.port, timeout=WAIT_S)
    target = path.replace("{", "").replace("}", "")
    connection.request(method, target, body, {"Authorization": f"Bearer {cluster.token}"})
    answer = connection.getresponse()
    sentence = answer.read()
    connection.close()
    assert answer.status < 500, sentence
