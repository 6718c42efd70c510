"""How the state of a script is described for a save: its tensors, and the rest as JSON.

`save_planner.py` walks a state and makes a `save_plan.py`; `notes.py` and `kinds.py` write values
that are no tensors. What only torch needs is in the files that begin with `torch_`.
"""
