"""A row of the table: a program, or a server and its client, and how they run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    group: str  # The package that has the program.
    name: str
    client: str
    server: str = ""
    expect: str = ""  # A regular expression that the client's output must have.
    quick: bool = False  # Also in the default test suite.
    seconds: int = 60
    listens: int = 0  # The TCP port of a server that lets nobody choose it.
    says: str = ""  # What a server says when it is ready, where its ports do not tell.
    ends: bool = True  # The server ends with the client; else it is stopped.
    before: str = ""  # A shell command on node b, before.
    setup: str = ""  # A shell command beside node a that sets the running server up: tgtadm.
    refused: str = ""  # Why it cannot run: the client fails, and says what `expect` has.
    source: str = ""  # A C file beside this one, and how it is linked: {program} is what comes of it.
    after: str = ""  # A shell command that must succeed in the end: what was copied is the same...
    near: bool = False  # Both nodes are in one network namespace: programs may take the direct path.
    protocol: str = ""  # "iwarp": what both nodes speak; else RoCE.
    again: str = ""  # A fault of the program's own that its output shows: the row runs again, at most twice.
