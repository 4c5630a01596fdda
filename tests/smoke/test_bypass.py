"""The panic switch: while it is on, everything passes. It outlives restarts and reloads, nothing delays it, and no order takes effect
after it was given up."""

import contextlib
import json
import os
import signal
import socket

import pytest

from weir_smoke import (controlctl, held_at, is_slow, launch_controld, make_samples, moved, needs_root, order_bypass, pause, read,
                        read_capture, start_loop, write)
import panic
from fault_rig import Switch
from panic_packets import DataplaneStatus, ask_dataplane
from panic_rig import Rig
from until import until
from wire import WIRE_STATUS

pytestmark = pytest.mark.timeout(180)

CLIENTS, RELOADS = 100, 16
LONGER_THAN_TIMERS_S = 5  # that look at targets, and try to write again
OTHERS_ORDERS = 10
ENTRIES, TIMES = 100_000, 1  # of each situation


@pytest.fixture
def switch(session):
    """Holds controld where the test wants it."""
    return Switch(session.path("controld.faults"))


@pytest.fixture
def enforcing(session, switch):
    """A session whose data plane, under traffic, enforces the samples' policy."""
    make_samples(session.folder, flows=1000, frames=5000)
    start_dataplane(session)
    session.environment = switch.environment(session.build)
    start_controld(session)
    return session


def start_dataplane(session):
    start_loop(session, read_capture(session.path("capture.pcap")))


def start_controld(session):
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()


def write_held_policy(session, name):
    """Its feed is new: controld has to open it."""
    write(session.folder, "held.txt", "10.0.0.1\n")
    return write(session.folder, name, "version: 1\nlists:\n  - {name: held, action: drop, file: held.txt}\n")


def panic_socket(session):
    return session.path("controld.sock.bypass")


def order_at_dataplane(session, state, when):
    order_bypass(session, state, when, "--dataplane", session.path("dataplane.sock"))


def order_at_controld(session, state, when):
    """controld itself confirms; controlctl tells the data plane when it takes long."""
    until("controld itself to confirm", lambda: order_bypass(session, state, when)[0].get("controld", True))


def target_says(session):
    return controlctl(session, "status")["targets"][0]["bypass"]


def wait_for_target(session, is_on):
    """A target that does not answer at once is listed with its former state."""
    session.wait(f"the target's bypass to be {'on' if is_on else 'off'}", lambda: target_says(session) == is_on)


def asked(path, line):
    """The answer of controld to a request."""
    with connect(path) as connection:
        connection.sendall(line)
        return line_of(connection)


def connect(path):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)  # waits while the queue is full
    connection.settimeout(60)
    return connection


def line_of(connection):
    answer = b""
    while not answer.endswith(b"\n"):
        answer += connection.recv(1 << 16) or b"\n"
    return json.loads(answer)


def controld_has_heard_all(session, switch=None):
    """controld has carried out the earlier orders on its socket, and has asked its targets since. switch: its timers, too, came due."""
    if switch:
        switch.pass_time(LONGER_THAN_TIMERS_S)
    for _ in range(2):  # the second answer comes after the work of the first
        assert "this socket knows" in asked(panic_socket(session), b'{"command": "status"}\n')["error"]
    session.stats()


def is_off(session, when):
    status = session.call("status")
    assert status["targets"] and not any(target["bypass"] for target in (status, *status["targets"])), when


# Everything passes.

def everything_passes(session, when):
    wait_for_target(session, True)
    assert controlctl(session, "status")["bypass"] == True, f"{when}: bypass in status"
    found, lists = moved(session)
    assert found["bypassed"] > 0, f"{when}: no packet is counted as bypassed"
    assert found["dropped"] == 0, f"{when}: packets dropped"
    assert {name: numbers["dropped"] for name, numbers in lists.items() if numbers["dropped"]} == {}, f"{when}: packets dropped by a list"


def test_everything_passes_through_restarts_and_reloads(enforcing):
    session = enforcing
    totals, _ = moved(session)
    assert totals["dropped"] > 0 and totals["bypassed"] == 0, f"the policy drops: {totals}"

    order_bypass(session, "on", "after the start")
    everything_passes(session, "after the order")

    session.kill("dataplane")
    session.environment = {}
    start_dataplane(session)
    everything_passes(session, "after a restart of the data plane")

    assert controlctl(session, "reload")["ok"], "a reload during bypass"
    everything_passes(session, "after a reload")

    session.kill("controld")
    start_controld(session)
    everything_passes(session, "after a restart of controld")

    order_bypass(session, "off", "at the end")
    wait_for_target(session, False)
    assert controlctl(session, "status")["bypass"] == False, "bypass in status at the end"
    totals, lists = moved(session)
    assert totals["dropped"] > 0 and totals["bypassed"] == 0, f"the policy drops again: {totals}"
    assert lists["scanners"]["dropped"] > 0, "scanners drops again"


# Nothing delays an order.

def test_an_order_is_obeyed_after_an_order_at_the_data_plane(enforcing):
    for _ in range(OTHERS_ORDERS):
        order_bypass(enforcing, "on", "after another's order")
        order_at_dataplane(enforcing, "off", "another's order")
    order_bypass(enforcing, "on", "after another's order")
    wait_for_target(enforcing, True)


def test_an_order_waits_for_no_client_and_no_reload(enforcing, switch):
    session, api = enforcing, enforcing.path("controld.sock")

    def begin_reloads():
        write_held_policy(session, "weir.yaml")
        reloads = [clients.enter_context(connect(api)) for _ in range(RELOADS)]
        for one in reloads:
            one.sendall(b'{"command": "reload"}\n')
        return reloads

    with contextlib.ExitStack() as clients:
        for path in (api, panic_socket(session)):
            for _ in range(CLIENTS):
                clients.enter_context(connect(path))
        with held_at(session, switch, "open", "feed", begin_reloads) as reloads:
            for state in ("on", "off", "on"):
                order_at_controld(session, state, "with silent clients and waiting reloads")
        for one in reloads:
            answer = line_of(one)
            assert answer["ok"], f"a reload that waited: {answer}"


def test_an_order_does_not_wait_for_the_first_policy(enforcing, switch):
    session = enforcing
    order_bypass(session, "on", "before the start")
    session.stop("controld")
    policy = write_held_policy(session, "held.yaml")
    with held_at(session, switch, "open", "feed", lambda: launch_controld(session, policy)):
        for path in (panic_socket(session), session.path("controld.sock")):
            assert os.path.exists(path), f"{path} is missing before the policy is compiled"
        order_at_controld(session, "off", "while the first policy is compiled")
        assert controlctl(session, "status")["starting"], "the first policy is compiled already"
        assert "compiles the first policy" in controlctl(session, "list", expect=1)["error"], "list during the first compile"
    session.wait("the first policy to be compiled", session.is_started)
    session.wait_enforced()
    assert controlctl(session, "status")["bypass"] == False, "bypass in status"


def test_controlctl_tells_the_data_plane_when_controld_is_stopped(enforcing, switch):
    """controld does not carry out an old order when it continues."""
    session = enforcing
    order_bypass(session, "off", "before the stop")
    pause(session.controld.pid)
    answer, err = order_bypass(session, "on", "with controld stopped")
    assert answer["controld"] == False, f"controld answered: {err}"
    assert "told directly" in err, f"controlctl does not say whom it told: {err}"
    code, out, err = session.controlctl("status", "--json")
    assert (code, json.loads(out)["targets"][0]["bypass"]) == (4, True), f"status with controld stopped: {err}"
    order_at_dataplane(session, "off", "with controld stopped")
    os.unlink(session.path("controld-state/bypass"))  # as controlctl does after an order to turn it off
    session.controld.send_signal(signal.SIGCONT)
    controld_has_heard_all(session, switch)
    is_off(session, "after controld continued")


def test_controlctl_tells_the_data_plane_when_controld_is_dead(enforcing):
    session = enforcing
    session.kill("controld")
    order_bypass(session, "on", "without controld")
    start_controld(session)
    assert controlctl(session, "status")["bypass"] == True, "the next controld forgot the order"
    wait_for_target(session, True)
    order_bypass(session, "off", "by the next controld")


def test_a_stopped_data_plane_does_not_carry_out_an_old_order(enforcing, switch):
    session = enforcing
    path = session.path("dataplane.sock")
    pause(session.dataplane.pid)
    code, out, err = session.controlctl("bypass", "on", "--dataplane", path)
    assert code == 3, f"bypass on at a data plane that is stopped: {out}{err}"
    session.dataplane.send_signal(signal.SIGCONT)
    ask_dataplane(path + ".bypass", WIRE_STATUS)  # after the old order, on the same socket
    assert not DataplaneStatus(path).is_bypassed(), "after the data plane continued"
    controld_has_heard_all(session, switch)
    is_off(session, "after the data plane continued")


def test_the_data_plane_ignores_sighup(enforcing):
    enforcing.dataplane.send_signal(signal.SIGHUP)
    enforcing.wait("the data plane to say how to reload", lambda: "SIGHUP is ignored" in enforcing.log("dataplane"))


def test_the_switch_has_a_socket_while_controld_runs(enforcing):
    assert os.stat(panic_socket(enforcing)).st_mode & 0o777 == 0o660, "mode of the switch's socket"
    assert enforcing.stop("controld") == 0, "exit code"
    assert not os.path.exists(panic_socket(enforcing)), "the switch's socket is left"


# Clients, descriptors, disks, publications, a controld that is stopped or dead: the situations of the figure safe.bypass_ms_worst
# (tests/rig/faults/panic.py), with few entries.

@pytest.fixture
def rig(session):
    return Rig(session, ENTRIES, TIMES)


class Answers:
    """controlctl's to the orders of each situation."""

    def __init__(self):
        self.of = {}  # situation: [(exit code, answer, standard error)]

    def take(self, situation, what, ms, code, answer, err):
        print(situation, what, f"{ms:.0f} ms", code, answer, err, flush=True)
        assert code in (0, 3) or is_slow(answer), f"{situation}: {what}: exit code {code}: {answer} {err}"
        if not answer.get("controld", True):
            assert "no controld answers" in err, f"{situation}: {what}: controlctl does not say who answered: {err}"
        self.of.setdefault(situation, []).append((code, answer, err))

    def are_from_controld(self, is_controld, *situations):
        for situation in situations:
            assert {answer.get("controld", True) for _, answer, _ in self.of[situation]} == {is_controld}, (
                f"{situation}: whether controld answered")

    def name_the_absent(self, path, *situations):
        """The data plane is told later, the other target confirms."""
        for situation in situations:
            for code, answer, err in self.of[situation]:
                told = {target["socket"]: target for target in answer["targets"]}
                absent = told.pop(path)
                assert (code, [one["acknowledged"] for one in told.values()]) == (3, [True]), f"{situation}: {answer} {err}"
                assert "told when it comes back" in absent["error"] or "told until it confirms" in absent["error"], (
                    f"{situation}: {absent}")

    def name_the_disk(self, *situations):
        for situation in situations:
            assert any("not durable" in str(answer) or "disk" in str(answer) for _, answer, _ in self.of[situation]), (
                f"{situation}: no answer says so: {self.of[situation]}")

    def include(self, beginning):
        assert any(situation.startswith(beginning) for situation in self.of), f"no order was given during {beginning}"


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_root("interfaces need it")
def test_every_situation_obeys_the_last_order(session, rig):
    """By the packets of both planes. controlctl says who answered, and nothing happens afterwards that was not ordered last."""
    answers = Answers()
    panic.run(rig, panic.Measure(rig, answers.take), say=print)
    answers.are_from_controld(False, "controld is stopped", "controld is dead", "the disk is full, controld is dead")
    answers.are_from_controld(True, "the data plane is dead", "the data plane is stopped")
    answers.name_the_absent(session.path("dataplane.sock"), "the data plane is dead", "the data plane is stopped")
    answers.name_the_disk("the disk is full", "the disk does not answer")
    answers.include("a reload")
    answers.include("a start")

    controld_has_heard_all(session)
    rig.wait_until_judged(False)
    session.wait("both programs to forget bypass", lambda: not os.path.exists(session.path("controld-state/bypass"))
                 and read(session.path("dataplane-state/bypass")) == b"off\n")
    is_off(session, "at the end")
