"""Manifests with wrong content and a right checksum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lacuna.artifacts.manifests import sealed


def write_forged(path: Path, content: dict[str, Any]) -> None:
    """Write a manifest that was read as JSON and then changed, with the checksum that it would have."""
    path.write_text(json.dumps(sealed({name: value for name, value in content.items() if name != "checksum"})))
