"""What every other package may use: the environment, arguments, wording, small files.

Nothing here knows of checkpoints, data or ranks. `launch.py` alone reads the environment.
"""
