"""A case of heirs.py."""

import os

from heirs_help import expect_line, failure, in_child, say


class Busy:
    """A child begins to use a connection while its parent duplicates, asks and closes."""

    @staticmethod
    def server(connection):
        connection.sendall(b"220 ready\n")
        expect_line(connection, "parent")
        child = in_child(lambda: expect_line(connection, "child"))
        numbers = [os.dup(connection.fileno()) for _ in range(100)]
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            os.dup2(connection.fileno(), numbers[0])
            numbers.append(os.dup(numbers[0]))
            os.close(numbers.pop(1))
            failure(connection.getsockname)
        say("child ended with", ended[1], len({os.fstat(number).st_ino for number in (*numbers, connection.fileno())}))
        for number in numbers:
            os.close(number)
        connection.sendall(b"parent\n")

    @staticmethod
    def client(connection):
        expect_line(connection, "client")
        connection.sendall(b"for parent\nfor child\n")
        expect_line(connection, "client")
