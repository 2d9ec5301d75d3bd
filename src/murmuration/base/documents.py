"""What comes from JSON and becomes JSON: whoever wrote it knows its shape, the types do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Any value of a document.
Json = Any
#: A document that is read, and one that is made.
JsonObject = Mapping[str, Json]
Document = dict[str, Json]
