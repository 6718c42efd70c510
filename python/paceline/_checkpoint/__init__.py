"""The Checkpointer without a framework, and its connection to the keeper of the checkpoints.

Start at `checkpoint.py`. `paceline.torch` and `paceline.numpy` add a framework to it.
`private_keeper.py` and `foreign_world.py` serve ranks that another launcher started.
"""
