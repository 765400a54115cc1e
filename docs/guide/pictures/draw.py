#!/usr/bin/env python3
"""Draws the guide's pictures into this folder. --check: says which differ from what it would draw."""

import argparse
import pathlib
import sys

from canvas import Canvas


def write_path():
    """Both ways of a WRITE, one above the other."""
    canvas = Canvas(760, 500, "The path of a WRITE: direct within a machine, in packets between machines")

    canvas.text(10, 24, "Direct path: one machine, one user", "title")
    canvas.frame(10, 36, 330, 170, "writer's process")
    canvas.box(30, 68, 290, 34, "qp.write(slice, region)", kind="part")
    canvas.box(30, 126, 290, 62, "the writer's own thread", ("checks key, bounds and rights,",
                                                          "copies, completes the request"), "good")
    canvas.frame(420, 36, 330, 170, "target's process")
    canvas.box(440, 68, 290, 34, "", ("the program runs on, and is not asked",), "part")
    canvas.box(440, 126, 290, 62, "registered memory", ("in a file that both processes map",), "good")
    canvas.arrow((175, 102), (175, 126), kind="way")
    canvas.arrow((320, 157), (440, 157), kind="way")
    canvas.text(380, 149, "bytes", "small", "middle")

    canvas.text(10, 244, "Wire path: other machine, other user, or VERBATIM_PATH=wire", "title")
    canvas.frame(10, 256, 330, 234, "writer's process")
    canvas.box(30, 288, 290, 34, "qp.write(slice, region)", kind="part")
    canvas.box(30, 346, 290, 52, "requester", ("cuts the request into numbered packets",), "good")
    canvas.box(30, 424, 290, 52, "completion", ("when the acknowledgement has come",), "part")
    canvas.frame(420, 256, 330, 234, "target's process")
    canvas.box(440, 288, 290, 34, "registered memory", kind="good")
    canvas.box(440, 346, 290, 52, "responder", ("checks order, key, bounds and rights",), "good")
    canvas.box(440, 424, 290, 52, "acknowledgement", ("or a refusal (NAK), with its reason",), "part")
    canvas.arrow((175, 322), (175, 346), kind="way")
    canvas.arrow((320, 372), (440, 372), kind="way")
    canvas.text(380, 364, "RoCE v2", "small", "middle")
    canvas.arrow((585, 346), (585, 322), kind="way")
    canvas.arrow((585, 398), (585, 424), kind="line")
    canvas.arrow((440, 450), (320, 450), kind="line")
    return canvas


def objects():
    """The order in which objects are made and may be destroyed."""
    canvas = Canvas(760, 420, "The objects: what is made from what, and how long each lives")
    canvas.box(20, 20, 220, 56, "Context", ("an open device, one port",))
    canvas.box(20, 116, 220, 56, "ProtectionDomain", ("what belongs together",))
    canvas.arrow((130, 76), (130, 116))
    canvas.text(140, 100, "allocate_domain()", "small")

    canvas.box(300, 20, 220, 56, "Buffer", ("memory that the library allocates",), "good")
    canvas.box(300, 116, 220, 56, "RegisteredMemory", ("memory of yours",), "good")
    canvas.box(300, 212, 220, 56, "QueuePair", ("one end of a connection",), "good")
    canvas.box(300, 308, 220, 56, "CompletionQueue", ("where requests end",))
    canvas.arrow((240, 130), (270, 130), (270, 48), (300, 48))
    canvas.arrow((240, 144), (300, 144))
    canvas.arrow((240, 158), (270, 158), (270, 240), (300, 240))
    canvas.text(262, 218, "connect(), Listener::accept()", "small", "end")
    canvas.arrow((410, 268), (410, 308))
    canvas.text(420, 292, "its own, or one that it shares", "small")

    canvas.box(580, 20, 160, 56, "RegionToken", ("24 bytes, for the peer",), "part")
    canvas.box(580, 116, 160, 56, "Slice", ("some of its bytes",), "part")
    canvas.box(580, 212, 160, 56, "RequestToken", ("one request",), "part")
    canvas.box(580, 308, 160, 56, "Completion", ("how it ended",), "part")
    canvas.arrow((520, 48), (580, 48))
    canvas.arrow((520, 144), (580, 144))
    canvas.arrow((520, 240), (580, 240))
    canvas.text(550, 232, "write()", "small", "middle")
    canvas.arrow((660, 268), (660, 308))
    canvas.text(668, 292, "wait()", "small")

    canvas.text(20, 392, "Blue: owned by you; its end ends what it stands for. Right column: values; a Slice or a "
                "RegionToken", "small")
    canvas.text(20, 410, "does not keep its memory alive. All others: kept alive by what is made from them.", "small")
    return canvas


def queue_pair_states():
    """The states of a connected queue pair, and the transitions to the error state."""
    canvas = Canvas(760, 380, "The states of a queue pair, and what leads to the error state")
    boxes = (("RESET", "just made"), ("INIT", "receives can be posted"), ("RTR", "ready to receive"),
             ("RTS", "ready to send: connected"))
    for number, (name, words) in enumerate(boxes):
        canvas.box(10 + 190 * number, 20, 170, 60, name, (words,), "good" if name == "RTS" else "box")
        if number:
            canvas.arrow((190 * number - 10, 50), (10 + 190 * number, 50), kind="way")
    canvas.text(10, 104, "connect() and accept() take all these steps.", "small")

    canvas.box(580, 200, 170, 60, "ERROR", ("all else is flushed",), "bad")
    canvas.arrow((665, 80), (665, 200), kind="fault")
    faults = (("remote access", "wrong key or right, bytes beyond the region"),
              ("transport retries exceeded", "the peer is gone, or packets do not arrive"),
              ("receiver not ready retries exceeded", "the peer posts no receive"),
              ("local length, local protection", "the receive is too short; memory is deregistered"),
              ("the peer disconnects", "or its process ends"))
    for number, (name, words) in enumerate(faults):
        canvas.text(10, 146 + 40 * number, name, "title")
        canvas.text(10, 163 + 40 * number, words, "small")
    canvas.arrow((330, 142), (662, 142), kind="fault")
    canvas.text(490, 134, "the first failure of a request", "small", "middle")

    canvas.box(580, 310, 170, 50, "flushed", ("every request behind it",), "bad")
    canvas.arrow((665, 260), (665, 310), kind="fault")
    return canvas


PICTURES = {"write-path.svg": write_path, "objects.svg": objects, "queue-pair-states.svg": queue_pair_states}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    folder = pathlib.Path(__file__).parent
    stale = []
    for name, draw in PICTURES.items():
        path, svg = folder / name, draw().svg()
        if options.check:
            if not path.exists() or path.read_text(encoding="utf-8") != svg:
                stale.append(name)
        else:
            path.write_text(svg, encoding="utf-8")
    if stale:
        print(f"not as docs/guide/pictures/draw.py draws them: {' '.join(stale)}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
