"""Words of messages: paceline's own line, and what kind of object a value is."""

import sys


def say(text: str) -> None:
    """Print a line of paceline's own to stderr."""
    print(f"paceline: {text}", file=sys.stderr, flush=True)


def with_article(name: str) -> str:
    """A class name with "a" or "an" before it: `with_article("int")` is "an int"."""
    is_spoken_vowel = name[:1].lower() in tuple("aeiou") or name == "ndarray"
    return f"{'an' if is_spoken_vowel else 'a'} {name}"


def described(value: object) -> str:
    """What kind of object that is: `described(3)` is "an int"."""
    return with_article(type(value).__qualname__)
