"""Jobs on a Ray cluster: Ray starts the nodes, and paceline keeps them training.

    from paceline.integrations.ray import PacelineTrainer

    result = PacelineTrainer(train_fn, nodes=4, spares=1, resources={"GPU": 8}).fit()

`paceline submit --on ray` does the same for a script. A job is an *adapter* (`adapter.py`), one
actor for the master and one for each node (`host.py`). The adapter decides nothing about training:
it starts the nodes that the master wishes for (`decide.py`), and tells what became of them.
"""

from paceline.integrations.ray.trainer import PacelineTrainer, Result

__all__ = ["PacelineTrainer", "Result"]
