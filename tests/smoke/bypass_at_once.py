"""The panic switch is delayed by nothing: not by silent clients, waiting reloads or a policy that is being compiled;
and it is sent whatever the data plane was thought to do."""

import json
import os
import socket
import time

from weir_smoke import (BUILD, Session, check, controlctl, equal, make_samples, read_capture, start_loop,
                        write)

AT_ONCE = 2  # seconds, on a machine that does much else


def connect(path):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)  # waits while the queue is full
    connection.settimeout(60)
    return connection


def switch(session, state, when):
    begin = time.monotonic()
    answer = controlctl(session, "bypass", state)
    took = time.monotonic() - begin
    equal((answer["ok"], answer["bypass"]), (True, state == "on"), f"{when}: bypass {state}")
    check(took < AT_ONCE, f"{when}: bypass {state} took {took:.1f} s")


with Session(BUILD) as session:
    make_samples(session.folder, flows=1000, frames=5000)
    start_loop(session, read_capture(session.path("capture.pcap")))
    policy, panic = session.path("weir.yaml"), session.path("controld.sock.bypass")
    session.start_controld(policy)
    session.wait_enforced()
    equal(os.stat(panic).st_mode & 0o777, 0o660, "mode of the switch's socket")

    # Somebody else turns it off behind controld's back.
    for _ in range(10):
        switch(session, "on", "after another's order")
        code, out, err = session.controlctl("bypass", "off", "--dataplane", session.path("dataplane.sock"))
        equal(code, 0, f"bypass off at the data plane: {out}{err}")
    switch(session, "on", "after another's order")
    session.wait("status to say so", lambda: controlctl(session, "status")["targets"][0]["bypass"], 2)

    silent = [connect(path) for path in (session.path("controld.sock"), panic) for _ in range(100)]
    reloads = []
    for _ in range(16):
        connection = connect(session.path("controld.sock"))
        connection.sendall(b'{"command": "reload"}\n')
        reloads.append(connection)
    for state in ("off", "on"):
        switch(session, state, "with silent clients and waiting reloads")
    for connection in reloads:
        answer = b""
        while not answer.endswith(b"\n"):
            answer += connection.recv(1 << 16) or b"\n"
        check(json.loads(answer)["ok"], f"a reload that waited: {answer}")
    for connection in silent + reloads:
        connection.close()

    # A start that compiles for long: the switch is there before the API.
    feed = "".join(f"{10 + (i >> 16)}.{i >> 8 & 255}.{i & 255}.{i % 251}\n" for i in range(400_000))
    write(session.folder, "large.txt", feed)
    write(session.folder, "large.yaml", "version: 1\nlists:\n  - {name: large, action: drop, file: large.txt}\n")
    session.stop("controld")
    session.controld = session._start("controld", [  # pylint: disable=protected-access
        os.path.join(BUILD, "control/controld"), "--config", session.path("large.yaml"), "--socket",
        session.path("controld.sock"), "--state-dir", session.path("controld-state"), "--target",
        session.path("dataplane.sock")])
    session.wait("the switch's socket", lambda: os.path.exists(panic))
    switch(session, "off", "while the first policy is compiled")
    check(not os.path.exists(session.path("controld.sock")), "the first policy is compiled meanwhile")
    session.wait("controld's socket", lambda: os.path.exists(session.path("controld.sock")))
    session.wait_enforced()
    equal(controlctl(session, "status")["bypass"], False, "what status says of it")
    equal(session.stop("controld"), 0, "exit code")
    check(not os.path.exists(panic), "the switch's socket is gone")
