"""The names of isolations. They have a module to themselves, so that a help text that lists them
imports nothing else."""

from __future__ import annotations

#: Containers where they work and plain processes elsewhere, or one of the two.
AUTO, PROCESS, RUNC = "auto", "process", "runc"
ISOLATIONS = (AUTO, PROCESS, RUNC)
#: The attribute of a node that says which one it uses.
ISOLATION = "isolation"
