"""A row of the table: a program, or a server and its client, and how they run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    group: str  # The package that has the program.
    name: str
    client: str
    server: str = ""
    expect: str = ""  # A regular expression that the client's output must match.
    quick: bool = False  # Also in the default test suite.
    seconds: int = 60
    listens: int = 0  # The TCP port of a server whose port cannot be chosen.
    says: str = ""  # What a server prints when it is ready, if its ports do not show that.
    ends: bool = True  # The server ends with the client; if not, it is stopped.
    before: str = ""  # A shell command on node b, before the client.
    setup: str = ""  # A shell command on node a that configures the running server: tgtadm.
    refused: str = ""  # Why it cannot run: the client fails and prints what `expect` matches.
    source: str = ""  # A C file beside this one, and how it is linked; {program} is the result.
    after: str = ""  # A shell command that must succeed at the end, for example to compare a copy.
    near: bool = False  # Both nodes are in one network namespace: programs may take the direct path.
    protocol: str = ""  # "iwarp": the protocol of both nodes; empty: RoCE.
    again: str = ""  # A fault of the program itself that its output shows: the row is repeated, at most twice.
