"""Pods that a plan awaits."""

from __future__ import annotations

from dataclasses import dataclass

from murmuration.kubernetes.making import is_made_by
from murmuration.kubernetes.objects import Object, controller_of


@dataclass
class Expectation:
    """A pod that is to go to a node when it comes: one of this name, the next of an owner, or the
    next that something makes which was not there yet when it was planned."""

    node: str
    owner: str = ""
    named: str = ""
    maker: str = ""
    #: Who has come.
    pod: str = ""

    def means(self, key: str, pod: Object) -> bool:
        if self.named == key or (self.maker and is_made_by(pod, self.maker)):
            return True
        owner = controller_of(pod)
        return bool(self.owner) and owner is not None and str(owner.get("uid")) == self.owner
