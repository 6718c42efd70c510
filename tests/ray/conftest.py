"""Ray's settings for the tests, set before Ray is imported."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
sys.path.insert(0, str(Path(__file__).parent))
