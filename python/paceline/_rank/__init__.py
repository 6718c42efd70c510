"""What runs in a rank beside its script; start at `bootstrap.py`.

The bootstrap opens the progress page and the flight ring, installs the hooks and runs the script.
Checkpoints and data are not here: a script asks for these by itself.
"""
