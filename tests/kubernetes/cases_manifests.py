"""Made clusters to which manifests come: pods as drawn as those that run, made by everything that
makes pods, with services, budgets, claims and classes beside them."""

from __future__ import annotations

from tests.kubernetes.cases import theme
from tests.kubernetes.cases_everything import (
    APPS,
    draw_app,
    draw_budget,
    draw_world,
    scatter,
)
from tests.kubernetes.checker_cluster import Object
from tests.kubernetes.made import PLAIN, Case, Made, Question, app_is, removing

MAKERS = (
    "Deployment",
    "Deployment",
    "StatefulSet",
    "ReplicaSet",
    "Job",
    "CronJob",
    "DaemonSet",
    "Pod",
)
#: Applications that run; the others come.
RUNNING = 10


def draw_template(m: Made, app: str) -> Object:
    """The pod of an application, as its maker has it."""
    rules = draw_app(m, app)
    rules.pop("owner")
    cpu = m.rng.choice(("100m", "300m", "600m", "1"))
    if m.rng.random() < 0.2:
        # The API server refuses pods that contradict their runtime class.
        rules = {key: rules[key] for key in rules if key not in ("overhead", "nodeSelector")}
        rules["runtimeClassName"] = "boxed"
    made = Made().pod(app, "", cpu, "256Mi", labels={"revision": "new"}, **rules)
    if m.rng.random() < 0.3:
        made["spec"]["containers"][0]["resources"] = {"limits": {"memory": "300Mi"}}
    return {"metadata": {"labels": made["metadata"]["labels"]}, "spec": made["spec"]}


def draw_maker(m: Made, app: str) -> Object:
    """What would make the pods of an application; stateful sets with a claim for each, some."""
    rng, template, labels = m.rng, draw_template(m, app), {"matchLabels": {"app": app}}
    kind, count = rng.choice(MAKERS), rng.randint(1, 4)
    meta: Object = {"name": app, "namespace": rng.choice(("shop", "shop", "data", "test"))}
    if kind == "Pod":
        meta |= template["metadata"]
        return {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": template["spec"]}
    body: Object = {"template": template}
    if kind == "CronJob":
        body = {"schedule": "0 * * * *", "jobTemplate": {"spec": body | {"parallelism": count}}}
    elif kind == "Job":
        body["parallelism"] = count
    elif kind == "DaemonSet":
        body["selector"] = labels
    else:
        body |= {"selector": labels, "replicas": count}
    if kind == "StatefulSet" and rng.random() < 0.6:
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        body["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": body}


def draw_manifests(m: Made) -> list[Object]:
    """The makers, and what stands beside them in a file that people publish."""
    found = Made(m.seed)
    scheduling = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "spare"}]}
    sandbox: Object = {
        "overhead": {"podFixed": {"cpu": "200m", "memory": "64Mi"}},
        "handler": "boxed",
    }
    found.add("RuntimeClass", "boxed", version="node.k8s.io/v1", scheduling=scheduling, **sandbox)
    defaults = {"type": "Container", "defaultRequest": {"cpu": "250m", "memory": "100Mi"}}
    found.add("LimitRange", "usual", "shop", spec={"limits": [defaults]})
    for app in m.rng.sample(APPS[RUNNING:], m.rng.choice((1, 2, 3))):
        maker = draw_maker(m, app)
        found.items.append(maker)
        space = maker["metadata"]["namespace"]
        found.add("Service", app, space, spec={"selector": {"app": app}, "clusterIP": "None"})
        if m.rng.random() < 0.4:
            found.budget(app, app_is(app), space, maxUnavailable=1)
    m.rng.shuffle(found.items)
    return found.items


@theme
def everything_and_manifests(seed: int) -> Case:
    m, count = Made(seed), 10
    draw_world(m, count)
    for app in APPS[:RUNNING]:
        scatter(m, app, draw_app(m, app))
        if m.rng.random() < 0.4:
            draw_budget(m, app)
    m.counted()
    questions: tuple[Question, ...] = (
        PLAIN,
        m.rng.choice((removing("n2"), ("--limit", "moves=1"), ("--exclude", "app=app0"))),
    )
    return Case(m.items, questions, draw_manifests(m), steps=0)
