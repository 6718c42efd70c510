"""The program behind `paceline receive`: an inbox, its token, and its Flight server."""

import argparse
import ipaddress
import logging
import os
import resource
import secrets
import signal
import sqlite3
import stat
import sys
import time
import tomllib
from typing import NoReturn

from paceline.receiver.refusal import Refusal

_USAGE = 2


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="paceline receive")
    parser.add_argument("address")
    parser.add_argument("--dir", required=True)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--cert")
    parser.add_argument("--key")
    parser.add_argument("--free", type=int, default=1 << 30)
    parser.add_argument("--keep", type=int, default=0)
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(levelname)s %(message)s")
    try:
        _serve(given)
    except Refusal as error:
        print(f"error[{error.code}]: {error}", file=sys.stderr)
        return _USAGE


def _serve(given: argparse.Namespace) -> NoReturn:
    from paceline.receiver.inbox import Inbox
    from paceline.receiver.server import Receiver

    os.umask(0o077)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # each connection takes a descriptor
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    host, _, port = given.address.rpartition(":")
    certificate = _certificate(given.cert, given.key)
    if certificate is None and not is_loopback(host):
        raise Refusal(
            what="the receiver needs TLS at this address",
            where=given.address,
            why="it is not loopback, so the token and the records would cross the network readable",
            fix="--cert FILE --key FILE, or an address of 127.0.0.1",
            code="PL-E221")
    try:
        inbox = Inbox(given.dir, partitions=given.partitions)
    except OSError as error:
        raise _cannot(given.dir, error, "--dir a folder that this user can write") from error
    token_path = os.path.join(inbox.folder, "token.toml")
    token = make_token(token_path)
    scheme = "grpc" if certificate is None else "grpc+tls"
    location = f"{scheme}://{host}:{port}"
    try:
        server = Receiver(location, inbox, token, free_bytes=given.free, certificate=certificate)
    except Exception as error:
        raise _cannot(given.address, error, "another port, or end what listens there") from error
    # All that was confirmed is durable, so the process may end at any moment. Flight's own shutdown
    # would wait for each reader and writer.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    print(f"receiving at {scheme}://{host}:{server.port} into {inbox.folder}\n"
          f"token: {token_path}\n"
          f"read it as Stream(\"flight://{host}:{server.port}/NAME\", secrets=\"{token_path}\")",
          flush=True)
    while True:
        try:
            inbox.expire_staged()
            if given.keep:
                inbox.expire(given.keep)
        except sqlite3.OperationalError as error:  # a full disk; the next minute tries again
            logging.getLogger("paceline").warning("old parts were not removed: %s", error)
        time.sleep(60.0)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def make_token(path: str) -> str:
    """The token in this file; a new one if there is no file."""
    if not os.path.exists(path):
        hidden = f"{path}.{os.getpid()}.tmp"
        with os.fdopen(os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f'"token" = "{secrets.token_urlsafe(32)}"\n')
        os.rename(hidden, path)
    if os.stat(path).st_mode & 0o077:
        raise Refusal(
            what="other users can read the receiver's token", where=path,
            why="the file has a mode that is wider than 0600", fix=f"chmod 600 {path}",
            code="PL-E221")
    with open(path, "rb") as file:
        token = tomllib.load(file).get("token")
    if not isinstance(token, str) or len(token) < 16:
        raise Refusal(
            what="the receiver's token is too short", where=path,
            why="it has to have 16 characters or more", fix=f"rm {path}; a new one is made",
            code="PL-E221")
    return token


def _certificate(cert: str | None, key: str | None) -> tuple[bytes, bytes] | None:
    if not cert and not key:
        return None
    try:
        with open(cert or "", "rb") as one, open(key or "", "rb") as other:
            if stat.S_IMODE(os.fstat(other.fileno()).st_mode) & 0o077:
                raise Refusal(
                    what="other users can read the receiver's key", where=f"--key {key}",
                    why="the file has a mode that is wider than 0600", fix=f"chmod 600 {key}",
                    code="PL-E221")
            return one.read(), other.read()
    except OSError as error:
        raise _cannot("--cert and --key", error, "name both files, in PEM") from error


def _cannot(where: str, error: Exception, fix: str) -> Refusal:
    return Refusal(what="the receiver cannot start", where=where,
                   why=str(error).partition("\n")[0], fix=fix, code="PL-E220")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
