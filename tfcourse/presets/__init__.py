"""Settings that belong together: each preset is a file that `--config` would take, too."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    file.stem: tomllib.loads(file.read_text(encoding="utf-8"))
    for file in sorted(Path(__file__).parent.glob("*.toml"))
}
"""The settings of each preset by section, `model` and `train`."""
