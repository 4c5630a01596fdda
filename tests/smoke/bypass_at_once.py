"""The panic switch is delayed by nothing: not by silent clients, waiting reloads or a policy that is being compiled;
and it is sent whatever the data plane was thought to do."""

import json
import os
import signal
import socket
import time

from weir_smoke import (BUILD, Session, check, controlctl, equal, make_samples, order_bypass, pause, read_capture,
                        start_loop, write)
from fault_rig import HELD, Switch  # noqa: E402 (weir_smoke puts tests/rig on the path)
from until import Turns  # noqa: E402

AT_ONCE = 10  # seconds, on a machine that does much else: what holds an order up here does so for as long as the test wants


def connect(path):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)  # waits while the queue is full
    connection.settimeout(60)
    return connection


def switch(session, state, when):
    with Turns() as took:
        order_bypass(session, state, when)
    check(took.seconds < AT_ONCE, f"{when}: bypass {state} took {took.seconds:.1f} s")


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
        order_bypass(session, "off", "at the data plane", "--dataplane", session.path("dataplane.sock"))
    switch(session, "on", "after another's order")
    session.wait("status to say so", lambda: controlctl(session, "status")["targets"][0]["bypass"])

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

    # A start whose policy is not compiled before the test wants it: the switch is there before the API.
    write(session.folder, "held.txt", "10.0.0.1\n")
    write(session.folder, "held.yaml", "version: 1\nlists:\n  - {name: held, action: drop, file: held.txt}\n")
    session.stop("controld")
    faults = Switch(session.path("controld.faults"))
    faults.arm("open", HELD, kinds=("feed",))
    session.environment = faults.environment(BUILD)
    session.controld = session._start("controld", [  # pylint: disable=protected-access
        os.path.join(BUILD, "control/controld"), "--config", session.path("held.yaml"), "--socket",
        session.path("controld.sock"), "--state-dir", session.path("controld-state"), "--target",
        session.path("dataplane.sock"), "--metrics", "off"])
    session.environment = {}
    session.wait("the first policy to be held at its feed", lambda: faults.counts("open")[1] > 0)
    for path in (panic, session.path("controld.sock")):
        check(os.path.exists(path), f"{path} is there before the policy is compiled")
    switch(session, "off", "while the first policy is compiled")
    check(controlctl(session, "status")["starting"], "the first policy is compiled meanwhile")
    check("compiles the first policy" in controlctl(session, "list", expect=1)["error"], "list during the first compile")
    faults.disarm()
    session.wait("the first policy to be compiled", session.is_started)
    session.wait_enforced()
    equal(controlctl(session, "status")["bypass"], False, "what status says of it")

    # A controld that cannot run: controlctl tells the data plane itself, says so, and what it gave up is not done later.
    pause(session.controld.pid)
    with Turns() as took:
        answer, err = order_bypass(session, "on", "with controld stopped")
    equal(answer["controld"], False, f"with controld stopped: whether it answered: {err}")
    check("told directly" in err and took.seconds < AT_ONCE, f"it is said who was told: {err}")
    code, out, err = session.controlctl("status", "--json")
    equal((code, json.loads(out)["targets"][0]["bypass"]), (4, True), f"status with controld stopped: {err}")
    order_bypass(session, "off", "again", "--dataplane", session.path("dataplane.sock"))
    os.unlink(session.path("controld-state/bypass"))  # as one who turns it off would
    session.controld.send_signal(signal.SIGCONT)
    time.sleep(2.5)  # longer than it takes to read what came meanwhile, and to ask the data plane
    status = controlctl(session, "status")
    equal((status["bypass"], status["targets"][0]["bypass"]), (False, False), "after controld went on")

    # It is dead: the same, and the next one knows.
    session.kill("controld")
    order_bypass(session, "on", "without controld")
    session.start_controld(policy)
    session.wait_enforced()
    equal(controlctl(session, "status")["bypass"], True, "what the next controld remembers")
    session.wait("status to say so of the target", lambda: controlctl(session, "status")["targets"][0]["bypass"])
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
    session.wait("the data plane to say what to do", lambda: "SIGHUP is ignored" in session.log("dataplane"))
    equal(session.stop("controld"), 0, "exit code")
    check(not os.path.exists(panic), "the switch's socket is gone")
