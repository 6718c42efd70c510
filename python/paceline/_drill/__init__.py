"""What `paceline drill` runs: a small job, and what breaks in it.

The command copies these files into its own folder first, because a verdict on a hang names lines of
scripts and none of installed packages.
"""
