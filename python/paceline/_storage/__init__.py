"""Where checkpoints lie, as far as a rank must know: directories and object stores.

Shards are written and read by the native code; here are the place's name, the identity of a
directory, and the S3 client that agents run as a process of its own.
"""
