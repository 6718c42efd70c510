"""The way back: from images in memory or storage to the objects of a script.

Start at `restoring.py`. `loading.py` reads a checkpoint without a Checkpointer, and
`rehearsal.py` proves before the first save that its bytes would fit the state again.
"""
