"""The panic switch is delayed by nothing: not by silent clients, waiting reloads or a policy that is being compiled;
and it is sent whatever the data plane was thought to do."""

import json
import os
import signal
import socket
import time

from weir_smoke import (BUILD, Session, check, controlctl, equal, make_samples, pause, read_capture,
                        start_loop, write)

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
    session.wait("the switch's socket", lambda: os.path.exists(session.path("controld.sock")))
    switch(session, "off", "while the first policy is compiled")
    check(controlctl(session, "status")["starting"], "the first policy is compiled meanwhile")
    check("compiles the first policy" in controlctl(session, "list", expect=1)["error"], "list during the first compile")
    session.wait("the first policy to be compiled", session.is_started)
    session.wait_enforced()
    equal(controlctl(session, "status")["bypass"], False, "what status says of it")

    # A controld that cannot run: controlctl tells the data plane itself, says so, and what it gave up is not done later.
    pause(session.controld.pid)
    begin = time.monotonic()
    code, out, err = session.controlctl("bypass", "on", "--json")
    equal((code, json.loads(out)["ok"], json.loads(out)["controld"]), (0, True, False), f"with controld stopped: {err}")
    check("told directly" in err and time.monotonic() - begin < 2 * AT_ONCE, f"it is said who was told: {err}")
    code, out, err = session.controlctl("status", "--json")
    equal((code, json.loads(out)["targets"][0]["bypass"]), (4, True), f"status with controld stopped: {err}")
    equal(session.controlctl("bypass", "off", "--dataplane", session.path("dataplane.sock"))[0], 0, "off again")
    os.unlink(session.path("controld-state/bypass"))  # as one who turns it off would
    session.controld.send_signal(signal.SIGCONT)
    time.sleep(2.5)  # longer than it takes to read what came meanwhile, and to ask the data plane
    status = controlctl(session, "status")
    equal((status["bypass"], status["targets"][0]["bypass"]), (False, False), "after controld went on")

    # It is dead: the same, and the next one knows.
    session.kill("controld")
    equal(session.controlctl("bypass", "on")[0], 0, "bypass on without controld")
    session.start_controld(policy)
    session.wait_enforced()
    status = controlctl(session, "status")
    equal((status["bypass"], status["targets"][0]["bypass"]), (True, True), "what the next controld remembers")
    switch(session, "off", "by the next controld")

    # A data plane that cannot run: what was given up meanwhile is not carried out when it goes on.
    pause(session.dataplane.pid)
    code, out, err = session.controlctl("bypass", "on", "--dataplane", session.path("dataplane.sock"))
    equal(code, 3, f"bypass on at a data plane that is stopped: {out}{err}")
    session.dataplane.send_signal(signal.SIGCONT)
    time.sleep(2.5)
    equal(controlctl(session, "status")["targets"][0]["bypass"], False, "after the data plane went on")

    # A data plane lets nothing end it but who asks it to stop.
    session.dataplane.send_signal(signal.SIGHUP)
    session.wait("the data plane to say what to do", lambda: "SIGHUP is ignored" in session.log("dataplane"), 5)
    equal(session.stop("controld"), 0, "exit code")
    check(not os.path.exists(panic), "the switch's socket is gone")
