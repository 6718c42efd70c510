"""Real Kubernetes clusters for tests; `cluster.py` is the place to begin."""

from .cluster import Cluster
from .fake_nodes import PLACEMENT
from .images import BUSYBOX
from .options import Options
from .pod import JsonDict, Pod
from .space import ClusterError, Daemon, eventually, missing_commands

__all__ = ["BUSYBOX", "PLACEMENT", "Cluster", "ClusterError", "Daemon", "JsonDict", "Options",
           "Pod", "eventually", "missing_commands"]
