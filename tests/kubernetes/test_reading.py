"""Files as people have them: several documents, other encodings, standard input, manifests with
much that makes no pods, tables of usage."""

from __future__ import annotations

import json
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from tests.kubernetes.objects import Object, budget, node, pod, together, write

from murmuration.assignment.problem import Problem
from murmuration.base.errors import InputError
from murmuration.base.resources import fitting_unit, parse_quantity
from murmuration.planning.snapshots.opening import open_snapshot


def things() -> list[Object]:
    return [node("a"), node("b"), pod("p", "a"), pod("q")]


def same(left: Problem, right: Problem) -> bool:
    amounts = (left.total == right.total).all() and (left.request == right.request).all()
    return bool(amounts) and left.tasks == right.tasks and left.nodes == right.nodes


def as_list(part: list[Object]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": part}, indent=2)


@pytest.mark.parametrize(
    "data",
    [
        (as_list(things()[:2]) + "\n" + as_list(things()[2:])).encode(),
        (as_list(things()[:2]) + as_list(things()[2:])).encode(),
        "\n".join(json.dumps(thing) for thing in things()).encode(),
        as_list(things()).encode("utf-16"),
        as_list(things()).encode("utf-16-be"),
        as_list(things()).encode("utf-8-sig"),
        (as_list(things()[:3]) + as_list(things())).encode(),
    ],
    ids=["two documents", "no gap", "lines", "UTF-16", "no mark", "a mark first", "some twice"],
)
def test_a_cluster_is_read_however_it_was_written(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "other.json").write_bytes(data)
    plain = open_snapshot(write(tmp_path / "plain.json", *things()))
    assert same(open_snapshot(tmp_path / "other.json"), plain)


def test_standard_input_is_a_dash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = open_snapshot(write(tmp_path / "plain.json", *things()))
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(as_list(things()).encode())))
    assert same(open_snapshot(Path("-")), plain)
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"{")))
    with pytest.raises(InputError, match="standard input: expected JSON"):
        open_snapshot(Path("-"))


def maker(kind: str, name: str, spec: Object) -> Object:
    return {"kind": kind, "metadata": {"namespace": "shop", "name": name}, "spec": spec}


def test_manifests_bring_the_pods_their_controllers_would_make(tmp_path: Path) -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x")["spec"]}
    closed = {"key": "gpu", "effect": "NoSchedule"}
    cluster = write(
        tmp_path / "cluster.json",
        node("a"),
        node("b", unschedulable=True),
        node("c", taints=[closed]),
    )
    job = {"jobTemplate": {"spec": {"parallelism": 2, "template": template}}}
    manifests = write(
        tmp_path / "new.json",
        maker("Service", "web", {}),
        maker("Prometheus", "k8s", {"replicas": 7}),
        budget("web", {"app": "x"}, minAvailable=1),
        maker("CronJob", "nightly", job),
        maker("DaemonSet", "agent", {"template": template}),
    )
    problem = open_snapshot(cluster, manifests)
    names = ("agent-new-0", "agent-new-1", "nightly-new-0", "nightly-new-1")
    assert sorted(problem.tasks) == [f"shop/{name}" for name in names]
    # A cordon keeps no daemon away, another's taint does.
    for name, nodes in (
        ("agent-new-0", [True, False, False]),
        ("agent-new-1", [False, True, False]),
    ):
        assert problem.may_use(problem.tasks.index(f"shop/{name}")).tolist() == nodes
    with pytest.raises(InputError, match="got Service"):
        open_snapshot(cluster, write(tmp_path / "none.json", maker("Service", "web", {})))


TABLE = """NAMESPACE   NAME   CPU(cores)   MEMORY(bytes)
shop        bare   120m         300Mi
shop        full   900m         900Mi
"""


def metrics() -> str:
    usage = [{"name": "x", "usage": {"cpu": "70m", "memory": "200Mi"}}]
    usage.append({"name": "y", "usage": {"cpu": "50000000n", "memory": "102400Ki"}})
    thing = {"metadata": {"namespace": "shop", "name": "bare"}, "containers": usage}
    return json.dumps({"kind": "PodMetricsList", "items": [thing]})


@pytest.mark.parametrize("text", [TABLE, metrics()], ids=["table", "metrics"])
def test_pods_that_request_nothing_weigh_what_they_use(tmp_path: Path, text: str) -> None:
    bare = pod("bare", "a")
    bare["spec"]["containers"][0]["resources"] = {}
    cluster = write(tmp_path / "cluster.json", node("a"), bare, pod("full", "a", cpu="500m"))
    (tmp_path / "usage").write_text(text)
    problem = open_snapshot(cluster, usage=tmp_path / "usage")
    assert problem.request[0, :2].tolist() == [120_000, 300 * 2**20]
    assert problem.request[1, 0] == 500_000
    assert any("1 pods that request nothing weigh what they use" in n for n in problem.notes)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("NAME CPU\nx 1\n", "expected what kubectl top pods -A prints"),
        ("NAMESPACE NAME CPU(cores) MEMORY(bytes)\nshop x 1m\n", "line 2: expected 4 columns"),
        (json.dumps(node("a")), "expected PodMetrics objects"),
    ],
)
def test_a_usage_that_is_none_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    cluster = write(tmp_path / "cluster.json", *things())
    (tmp_path / "usage").write_text(text)
    with pytest.raises(InputError, match=sentence):
        open_snapshot(cluster, usage=tmp_path / "usage")


def test_odd_objects_are_left_aside_and_named(tmp_path: Path) -> None:
    young = node("young")
    young["status"] = {}
    hen = pod("hen", labels={"app": "hen"}, affinity=together({"app": "egg"}))
    egg = pod("egg", labels={"app": "egg"}, affinity=together({"app": "hen"}))
    cluster = write(
        tmp_path / "c.json", node("a"), young, pod("p", "a"), pod("x", "gone"), hen, egg
    )
    problem = open_snapshot(cluster)
    assert problem.tasks == ("shop/p", "shop/hen", "shop/egg")
    assert problem.may_use(0).tolist() == [True, False]
    assert any("node young does not yet say what it has" in note for note in problem.notes)
    assert any("pod shop/x lies on node 'gone'" in note for note in problem.notes)


def test_the_unit_fits_what_there_is() -> None:
    """Bytes stay bytes, pieces millionths, until they would not fit an exact whole number."""
    assert fitting_unit("ephemeral-storage", 2e13) == 1.0
    assert fitting_unit("nvidia.com/gpu", 8) == 1e6
    for largest in (1e9, 1e12, 1e18, 1e24):
        for name in ("example.com/token", "hugepages-2Mi"):
            unit = fitting_unit(name, largest)
            assert largest * unit <= 2**50 and (unit * 1000 * largest > 2**50 or unit >= 1.0)


@pytest.mark.parametrize(
    ("text", "value"), [("1E", 1e18), ("2Ei", 2.0**61), ("1E3", 1e3), ("1e-1", 0.1), ("100n", 1e-7)]
)
def test_an_exponent_is_followed_by_digits_and_exa_is_not(text: str, value: float) -> None:
    assert parse_quantity(text) == value


def broken(part: str, key: str, value: object) -> Object:
    thing = node("a") if key == "taints" else pod("p", "a")
    thing.setdefault(part, {})[key] = value
    return thing


@pytest.mark.parametrize(
    ("part", "key", "value", "sentence"),
    [
        ("metadata", "ownerReferences", "x", "pod shop/p: expected array"),
        ("metadata", "labels", "x", "at metadata.labels"),
        ("spec", "tolerations", ["x"], r"at spec.tolerations\[0\]"),
        ("spec", "affinity", "x", "at spec.affinity"),
        ("spec", "topologySpreadConstraints", "x", "at spec.topologySpreadConstraints"),
        ("spec", "priority", 10**30, "expected a whole number as priority"),
        ("spec", "taints", "x", "node a: expected array"),
    ],
)
def test_a_field_of_another_type_is_named(
    tmp_path: Path, part: str, key: str, value: object, sentence: str
) -> None:
    cluster = write(tmp_path / "c.json", node("b"), broken(part, key, value))
    with pytest.raises(InputError, match=sentence):
        open_snapshot(cluster)


def test_what_is_too_deep_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="too deep"):
        open_snapshot(tmp_path / "c.json")


def test_a_budget_that_says_nothing_lets_nobody_go_and_null_asks_for_nothing(
    tmp_path: Path,
) -> None:
    bare = pod("p", "a", labels={"app": "x"})
    bare["spec"]["containers"][0]["resources"] = {"requests": {"cpu": None, "memory": "1Gi"}}
    bare["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "x", "controller": True}]
    problem = open_snapshot(write(tmp_path / "c.json", node("a"), bare, budget("b", {"app": "x"})))
    assert problem.request[0, :2].tolist() == [0, 2**30]
    assert not problem.movable[0]
