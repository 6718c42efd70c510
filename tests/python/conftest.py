"""Fixtures of the Python tests: the agent's double, and small scripts in a folder of their own."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
