"""Kubeconfig files: what they may say, and one sentence for what makes no sense."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from murmuration.base.errors import InputError
from murmuration.kubernetes.api.access import find_access


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "expected YAML"),
        ("[]", "expected a kubeconfig"),
        ("{}", "expected a current-context"),
        ("current-context: a", "unknown context 'a'"),
        (
            "{current-context: a, contexts: [{name: a, context: {cluster: b}}], "
            "clusters: [{name: b, cluster: {server: 'ftp://x'}}]}",
            "expected server as https://HOST:PORT",
        ),
        (
            "{current-context: a, contexts: [{name: a, context: {cluster: b}}], clusters: "
            "[{name: b, cluster: {server: 'https://x', certificate-authority-data: '!'}}]}",
            "certificate-authority-data: expected base64",
        ),
    ],
)
def test_a_kubeconfig_that_makes_no_sense(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError, match=f"(?s){path!s}.*{sentence}"):
        find_access(path)


def test_no_kubeconfig_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InputError, match=r"no cluster: expected .*\.kube/config"):
        find_access()


def test_several_files_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two entries of one name the first counts; paths are relative to their own file."""
    contexts = {"contexts": [{"name": "a", "context": {"cluster": "b", "namespace": "shop"}}]}
    first, second = tmp_path / "first", tmp_path / "second"
    cluster = {"name": "b", "cluster": {"server": "http://one:81/prefix"}}
    first.write_text(json.dumps({"current-context": "a", "clusters": [cluster]}))
    cluster = {"name": "b", "cluster": {"server": "http://two"}}
    second.write_text(json.dumps({"current-context": "z", "clusters": [cluster], **contexts}))
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, (first, second))))
    access = find_access()
    assert (access.server.host, access.server.port) == ("one", 81)
    assert (access.server.path, access.namespace) == ("/prefix", "shop")
