"""Clients that take what controld and a data plane have for each other: connections, time, descriptors.

    python3 tests/rig/faults/many_clients.py FOLDER      busy ones, on the sockets in it, until it is killed

Standard library only.
"""

import contextlib
import os
import resource
import selectors
import socket
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from wire import WIRE_STATUS, question

CLIENTS = 64                       # on each socket
SOCKETS = (("controld.sock", socket.SOCK_STREAM), ("controld.sock.bypass", socket.SOCK_STREAM),
           ("dataplane.sock", socket.SOCK_SEQPACKET), ("dataplane.sock.bypass", socket.SOCK_SEQPACKET))


def connect_silent(session):
    connections = []
    for name, kind in SOCKETS:
        for _ in range(CLIENTS):
            connections.append(socket.socket(socket.AF_UNIX, kind))
            connections[-1].connect(session.path(name))  # waits while the queue is full
    return connections


@contextlib.contextmanager
def silent_clients(session):
    connections = connect_silent(session)
    try:
        yield
    finally:
        for connection in connections:
            connection.close()


def be_busy(folder):
    """Asks what changes nothing, on CLIENTS connections to each socket, without a pause. What the sockets of the switch do not
    answer, they refuse: then another connection."""
    questions = {socket.SOCK_STREAM: b'{"command": "status"}\n', socket.SOCK_SEQPACKET: question(WIRE_STATUS)}
    selector = selectors.DefaultSelector()

    def begin(place):
        connection = socket.socket(socket.AF_UNIX, place[1])
        connection.setblocking(False)
        try:
            connection.connect(os.path.join(folder, place[0]))
            connection.send(questions[place[1]])
        except OSError:  # a full queue, for one
            connection.close()
            return False
        selector.register(connection, selectors.EVENT_READ, place)
        return True

    def go_on(connection, kind):
        try:
            if not connection.recv(1 << 17) or kind == socket.SOCK_STREAM:
                return False
            connection.send(questions[kind])
            return True
        except OSError:
            return False

    to_begin = [place for place in SOCKETS for _ in range(CLIENTS)]
    answers = 0
    while True:
        to_begin = [place for place in to_begin if not begin(place)]
        for key, _ in selector.select(0.001 if to_begin else None):
            if not go_on(key.fileobj, key.data[1]):
                selector.unregister(key.fileobj)
                key.fileobj.close()
                to_begin.append(key.data)
            answers += 1
            if answers == 1000:
                print("busy", flush=True)


@contextlib.contextmanager
def busy_clients(session):
    process = subprocess.Popen([sys.executable, os.path.abspath(__file__), session.folder], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def descriptors(process):
    return [int(number) for number in os.listdir(f"/proc/{process.pid}/fd")]


@contextlib.contextmanager
def few_descriptors(session):
    """Both programs may open four more than they have, and clients take them."""
    before = []
    for process in (session.controld, session.dataplane):
        limit = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        before.append((process.pid, limit))
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (max(descriptors(process)) + 5, limit[1]))
    try:
        with silent_clients(session):
            yield
    finally:
        for pid, limit in before:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)


if __name__ == "__main__":
    be_busy(sys.argv[1])
