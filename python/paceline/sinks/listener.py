"""Who listens at a port of this host: before a token is sent there without TLS.

A program of any user can listen at a loopback port that a receiver has left. The kernel says whose
socket it is.
"""

import os
import socket
import struct

_LISTENS = "0A"  # the state of the socket in /proc/net/tcp


def owners_of(port: int) -> set[int] | None:
    """The user ids of all that listen at this port, on loopback or any address.

    None: this system does not tell.
    """
    owners: set[int] = set()
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        try:
            with open(f"/proc/net/{name}", encoding="ascii") as file:
                lines = file.readlines()[1:]
        except OSError:
            if name == "tcp":
                return None
            continue
        for line in lines:
            fields = line.split()
            address, _, number = fields[1].rpartition(":")
            if fields[3] == _LISTENS and int(number, 16) == port and _is_here(address, family):
                owners.add(int(fields[7]))
    return owners


def strangers_at(port: int) -> set[int]:
    """The user ids of those who listen there and are neither this user nor root."""
    return (owners_of(port) or set()) - {os.geteuid(), 0}


def _is_here(address: str, family: socket.AddressFamily) -> bool:
    """The address of /proc/net/tcp is loopback or any: words of 32 bits in the host's order."""
    words = [int(address[at:at + 8], 16) for at in range(0, len(address), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    if family == socket.AF_INET6 and packed[:12] == b"\0" * 10 + b"\xff\xff":
        packed = packed[12:]
    return not any(packed) or packed[0] == 127 or packed == b"\0" * 15 + b"\1"
