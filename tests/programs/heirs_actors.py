"""Processes that use one connection in turn, as a plan says, which both ends know."""

import os
import random

from heirs_help import expect_bytes, in_child, piece_of, say

SEEDS = 12
STEPS = 40
ACTORS = 6
SIZES = (1, 100, 5000, 70_000)


def plans():
    """For each seed a list of (actor, "read", "write", "fork" or "leave", bytes). Actor 0 is the first process."""
    for seed in range(SEEDS):
        chosen = random.Random(seed)
        actors, made, steps = [0], 1, []
        for _ in range(STEPS):
            actor = chosen.choice(actors)
            what = chosen.choices(("read", "write", "fork", "leave"), (5, 5, 2, 1))[0]
            if what == "fork" and made < ACTORS:
                actors.append(made)
                made += 1
                steps.append((actor, what, 0))
            elif what == "leave" and actor != 0:
                actors.remove(actor)
                steps.append((actor, what, 0))
            elif what in ("read", "write"):
                steps.append((actor, what, chosen.choice(SIZES)))
        yield steps + [(actor, "leave", 0) for actor in actors if actor != 0]


class Actors:
    """They are told what to do over pipes, which all have, and answer when it is done."""

    at = 0  # In the whole conversation.

    def __init__(self, connection):
        self.connection = connection
        self.pipes = [(os.pipe(), os.pipe()) for _ in range(ACTORS)]
        self.made = 1

    def do(self, what, at, size):
        if what == "read":
            expect_bytes(self.connection, at, size)
        elif what == "write":
            self.connection.sendall(piece_of(at, size))
        else:
            in_child(lambda: self.obey(size))

    def obey(self, number):
        """A child's life."""
        (commands, _), (_, answers) = self.pipes[number]
        while True:
            what, at, size = os.read(commands, 100).decode().split()
            if what != "leave":
                self.do(what, int(at), int(size))
            os.write(answers, b"x")
            if what == "leave":
                return

    def play(self, steps):
        for actor, what, size in steps:
            size_or_child = self.made if what == "fork" else size
            say(actor, what, size)
            if actor == 0:
                self.do(what, Actors.at, size_or_child)
            else:
                os.write(self.pipes[actor][0][1], f"{what} {Actors.at} {size_or_child}".encode())
                os.read(self.pipes[actor][1][0], 1)
            Actors.at += size
            self.made += what == "fork"
        for ends in self.pipes:
            for number in (*ends[0], *ends[1]):
                os.close(number)
