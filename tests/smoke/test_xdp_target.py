"""controld drives XDP on veth pairs: frames that the policy blocks do not arrive, and are counted. Pinned programs enforce
through a crash. Interfaces come, go and are detached; `status` says where nothing is enforced, and why."""

import ctypes
import json
import os
import socket
import struct
import subprocess
import threading

import pytest

from pace import hold
from until import until
from weir_smoke import controlctl, events, needs_programs, needs_root, order_bypass, write
from wires import Wire, exchange, ip, make_frames, make_veth, own_bpf_file_system, wait_until_joined

pytestmark = [pytest.mark.timeout(180), needs_root("interfaces and XDP need it"), needs_programs("ip", "ethtool")]

SYS_BPF = 321                                        # x86-64
BPF_PROG_LOAD, BPF_OBJ_GET, BPF_LINK_CREATE, BPF_LINK_DETACH, BPF_XDP = 5, 7, 28, 34, 37  # linux/bpf.h
PROG_TYPE_XDP = 6
SOURCES = ("192.0.2.0/25", "2001:db8:bad::/48"), ("192.0.2.128/25", "2001:db8:a::/48")  # of wires.make_frames
FRAMES = make_frames(90)
FLIPPED = [(frame, not blocked) for frame, blocked in FRAMES]  # when SOURCES[1] is blocked
BLOCKED = sum(blocked for _, blocked in FRAMES)
libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def session(quiet_network, session):
    """With a BPF file system in its folder."""
    with own_bpf_file_system(session.path("bpf")):
        yield session


@pytest.fixture
def first(session):
    """The wires of in0, where controld enforces the policy."""
    wires = pair(0)
    write_policy(session, ["in0"], more="capture: {one_in: 10}")
    start(session)
    session.wait_enforced()
    return wires


@pytest.fixture
def second(quiet_network):
    """The wires of in1, which the policy does not name yet."""
    return pair(1)


def test_xdp_follows_the_policy(session, first):
    controlctl_shows_the_interface(session)
    target, = controlctl(session, "status")["targets"]
    assert (target["socket"], target["workers"], target["isa"]) == ("xdp:in0", 0, "bpf"), "the target in status"
    in0 = interfaces(session)["in0"]
    assert (in0["attached"], in0["mode"], in0["error"]) == (True, "native", ""), "in0 in status"
    enforced(session, first, "the policy")
    assert "attached, native" in shown(session, "status"), "status for people"

    reload_with(session, ["in0"], blocked=SOURCES[1])
    enforced(session, first, "another policy", FLIPPED)

    order_bypass(session, "on", "under XDP")
    everything_passes(first, "bypass")
    session.wait("bypass in status", lambda: controlctl(session, "status")["targets"][0]["bypass"])
    order_bypass(session, "off", "under XDP")
    enforced(session, first, "after bypass", FLIPPED)


def controlctl_shows_the_interface(session):
    target, = controlctl(session, "top", "--once")["targets"]
    assert (target["state"], target["workers"]) == ("measured", []), "target of top"
    assert [(port["name"], port["driver"], port["link_up"]) for port in target["ports"]] == [("in0", "native", True)], "ports of top"
    for command in (["top", "--once"], ["capture"], ["stats"]):
        assert "in0" in shown(session, *command), f"controlctl {command}"


def test_the_program_stays_on_an_interface_with_another_name(session, first):
    for was, now in (("in0", "other0"), ("other0", "in0")):
        ip("link", "set", was, "down")
        ip("link", "set", was, "name", now)
        ip("link", "set", now, "up")
        for wire in first:
            wire.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # told once: the interface was down
        wait_until_joined(*first)
        enforced(session, first, f"in0 is called {now}")
        assert interfaces(session)["in0"]["attached"], f"in0 is not attached in status when it is called {now}"
    session.wait("the new name in the log", lambda: events(session.log("controld"), interface="in0", name="other0"))


def test_a_program_that_somebody_detaches_is_attached_again(session, first):
    detach_as_somebody_else(session, "in0")
    enforced(session, first, "after somebody detached it")
    session.wait("the log to say so", lambda: events(
        session.log("controld"), "xdp attached again", interface="in0", cause="it was detached by somebody else"))


def test_the_program_outlives_controld(session, first):
    program, before = program_on("in0"), session.stats()
    session.kill("controld")
    exchange(*first, FRAMES, "after a crash of controld")
    start(session)
    session.wait_enforced()
    assert program_on("in0") == program, "the program after a restart of controld"
    after = session.stats()
    assert after["lists"]["blocked"]["dropped"] - before["lists"]["blocked"]["dropped"] == BLOCKED, (
        "frames that were dropped while there was no controld")
    assert after["targets"][0]["start_time"] == before["targets"][0]["start_time"], "begin of the counts"
    enforced(session, first, "after a restart of controld")

    session.stop("controld")
    exchange(*first, FRAMES, "after controld was stopped")
    start(session)
    session.wait_enforced()
    assert program_on("in0") == program, "the program after a stop of controld"


def test_an_interface_that_comes_back_is_enforced_at_once(session, first):
    for wire in first:
        wire.close()
    ip("link", "del", "in0")
    wait_attached(session, "in0", False)
    assert interfaces(session)["in0"]["error"], "status does not say why in0 is not attached"
    assert "not attached to in0" in refusal(session), "a reload while in0 is away"
    wires = pair(0)
    wait_attached(session, "in0")
    enforced(session, wires, "an interface that came back")


def test_other_interfaces_come_and_go_under_traffic(session, first, second):
    """in0 stays in the policy: nothing gets through there."""
    program = program_on("in0")
    with Flood(first) as flood:
        reload_with(session, ["in0", "in1"])
        flood.wait_for_more()
    assert controlctl(session, "status")["targets"][0]["socket"] == "xdp:in0,in1", "the target in status"
    assert program_on("in0") == program, "the program of the interface that stays"
    enforced(session, first, "the first of two interfaces")
    enforced(session, second, "the second interface")

    with Flood(first) as flood:
        reload_with(session, ["in0"])
        flood.wait_for_more()
    assert program_on("in1") is None, "the program of the interface that left the policy"
    everything_passes(second, "an interface that left the policy")
    assert events(session.log("controld"), "xdp detached", interfaces="in1"), "the log does not say that in1 was detached"
    enforced(session, first, "the interface that stays")


def test_the_policy_chooses_the_mode(session, first):
    for kind in ("dummy", "ifb", "bridge"):  # not every kernel has each
        if subprocess.run(["ip", "link", "add", "plain0", "type", kind], capture_output=True).returncode == 0:
            break
    write_policy(session, ["in0", "plain0"], attach="native")
    assert "not attached to plain0: " in refusal(session), "reload with `attach: native`"
    found = interfaces(session)
    assert (found["in0"]["mode"], found["plain0"]["attached"]) == ("native", False), "attach: native"
    text = session.controlctl("status")[1]
    assert "NOT EVERYWHERE" in text and "NOT ATTACHED" in text, "status for people"
    enforced(session, first, "beside an interface that is not attached")

    reload_with(session, ["in0", "plain0"])
    found = interfaces(session)
    assert (found["in0"]["mode"], found["plain0"]["mode"]) == ("native", "generic"), "attach: auto"
    assert events(session.log("controld"), "xdp attached behind the driver: slower", interface="plain0"), (
        "the log does not say that plain0 is slower")
    for attach in ("generic", "native"):
        reload_with(session, ["in0"], attach=attach)
        assert interfaces(session)["in0"]["mode"] == attach, f"attach: {attach}"
        enforced(session, first, f"attach: {attach}")


def test_programs_of_others_stay(session, first, second):
    other = ForeignProgram("in1", b"weir")
    write_policy(session, ["in0", "in1"])
    error = refusal(session)
    assert "another controld enforces there already" in error and "ip link" not in error, "reload beside another controld's program"
    assert program_on("in1") == other.id, "the program of another controld"
    reload_with(session, ["in0"])
    other.close()

    foreign = ForeignProgram("in1")
    write_policy(session, ["in0", "in1"])
    error = refusal(session)
    assert "foreign" in error and str(foreign.id) in error, "reload beside another XDP program"
    assert program_on("in1") == foreign.id, "the program of somebody else"
    foreign.close()
    wait_attached(session, "in1")
    enforced(session, second, "after another program was removed")


def test_detach_on_demand(session, first, second):
    reload_with(session, ["in0", "in1"])
    assert controlctl(session, "detach", "in1") == {
        "ok": True, "controld": True, "detached": ["in1"], "version": controlctl(session, "status")["version"]}, "detach in1"
    everything_passes(second, "detached")
    wait_attached(session, "in1", False)
    detach_as_somebody_else(session, "in0")  # a marker: controld attaches again where it may
    assert "on demand" in interfaces(session)["in1"]["error"], "status does not say why in1 is not attached"
    assert program_on("in1") is None, "the program of a detached interface"
    enforced(session, first, "the other interface")
    controlctl(session, "detach", "no-such-if", expect=1)
    assert controlctl(session, "reload")["ok"], "reload after detach"
    enforced(session, second, "attached again by a reload")
    assert sorted(controlctl(session, "detach")["detached"]) == ["in0", "in1"], "detach of all"
    for wires in (first, second):
        everything_passes(wires, "all detached")
    assert controlctl(session, "reload")["ok"], "reload after detach of all"
    enforced(session, first, "all attached again")


def test_detach_without_controld(session, first, second):
    reload_with(session, ["in0", "in1"])
    session.kill("controld")
    options = ["--bpf-dir", session.path("bpf")]
    code, out, err = session.controlctl("detach", "in1", "--json", *options)
    assert code == 0 and "no controld answers" in err, f"detach in1: {code}\n{out}{err}"
    assert json.loads(out)["detached"] == ["in1"], "detach in1"
    everything_passes(second, "detached")
    exchange(*first, FRAMES, "the other interface")
    code, out, err = session.controlctl("detach", "in1", *options)
    assert code == 1 and "in1" in err, f"detach of an interface that is not attached: {code}\n{out}{err}"
    assert session.controlctl("detach", *options)[0] == 0, "detach of all"
    everything_passes(first, "all detached")
    assert [name for name in os.listdir(session.path("bpf")) if name.startswith("weir")] == [], "pins"
    start(session)
    session.wait_enforced()
    enforced(session, first, "started after detach")


def test_a_policy_without_an_xdp_target_detaches(session, first, second):
    session.stop("controld")
    write_targets(session, "targets: []")
    start(session)
    assert "on an interface that no target names: `controlctl detach` takes it off interface=in0 " in session.log("controld"), (
        "the log does not say what is left on an interface")
    exchange(*first, FRAMES, "without an xdp target at the start")
    assert controlctl(session, "detach", "in0")["detached"] == ["in0"], "detach of an interface that no target names"
    everything_passes(first, "detached, though no target names it")

    reload_with(session, ["in0", "in1"])
    enforced(session, first, "a target that came by a reload")
    write_targets(session, "targets: []")
    assert controlctl(session, "reload")["ok"], "reload without the target"
    assert [program_on("in0"), program_on("in1")] == [None, None], "programs without the target"
    assert events(session.log("controld"), "xdp detached", interfaces="in0,in1"), "the log does not say that both were detached"


def test_controld_gives_up_privileges_without_an_xdp_target(session, first):
    """Neither the policy nor the last good one names an xdp target when controld starts."""
    write_targets(session, "targets: []")
    assert controlctl(session, "reload")["ok"], "reload without the target"
    session.stop("controld")
    start(session)
    write_policy(session, ["in0"])
    error = refusal(session)  # comes when controld has tried for a while
    assert "gave up what that needs" in error and "start controld anew" in error, "a reload with the first xdp target"
    target, = controlctl(session, "status")["targets"]
    assert "start controld anew" in target["last_error"], f"the target in status: {target}"
    assert "start controld anew" in session.controlctl("status")[1], "status for people"
    assert "start controld anew" in session.log("controld"), "the log"
    everything_passes(first, "an xdp target that cannot be had")
    session.stop("controld")
    start(session)
    session.wait_enforced()
    assert controlctl(session, "status")["targets"][0]["last_error"] == "", "status after a restart"
    enforced(session, first, "an xdp target after a restart")


def test_the_last_good_policy_names_the_interfaces(session, first):
    session.kill("controld")
    write(session.folder, "weir.yaml", "version: 1\nnonsense: x\ntargets: [{xdp: {interfaces: [in0]}}]\nlists: []\n")
    start(session)
    session.wait_enforced()
    assert controlctl(session, "status")["from_last_good"], "controld does not run the last good policy"
    enforced(session, first, "the last good policy, on the interfaces of a bad one")


def write_policy(session, interfaces, attach="auto", blocked=SOURCES[0], more=""):
    write_targets(session, f"targets: [{{xdp: {{interfaces: [{', '.join(interfaces)}], attach: {attach}}}}}]\n{more}", blocked)


def write_targets(session, targets, blocked=SOURCES[0]):
    write(session.folder, "weir.yaml", f"""\
version: 1
{targets}
lists:
  - {{name: blocked, action: drop, entries: ["{blocked[0]}", "{blocked[1]}"]}}
""")


def reload_with(session, interfaces, **options):
    write_policy(session, interfaces, **options)
    assert controlctl(session, "reload")["ok"], f"reload with {interfaces} {options}"


def refusal(session):
    """The error of a reload that is refused."""
    code, out, err = session.controlctl("reload")
    assert code == 3, f"a reload is not refused: {code}\n{out}{err}"
    return err


def shown(session, *command):
    """Text for people."""
    code, out, err = session.controlctl(*command)
    assert code == 0, f"controlctl {command}: {code}\n{out}{err}"
    return out


def start(session):
    session.start_controld(session.path("weir.yaml"), targets=False, extra=["--bpf-dir", session.path("bpf")])


def interfaces(session):
    """{name: the interface in status}"""
    target, = controlctl(session, "status")["targets"]
    return {interface["name"]: interface for interface in target["interfaces"]}


def wait_attached(session, name, attached=True):
    session.wait(f"{name} to be {'attached' if attached else 'detached'}",
                 lambda: interfaces(session)[name]["attached"] == attached)


def detach_as_somebody_else(session, name):
    """Returns when controld has attached its program again."""
    path = ctypes.create_string_buffer(session.path(f"bpf/weir_link_{name}").encode())
    link = bpf(BPF_OBJ_GET, struct.pack("<QII", ctypes.addressof(path), 0, 0))
    bpf(BPF_LINK_DETACH, struct.pack("<I", link))
    os.close(link)
    session.wait(f"a program on {name} again", lambda: program_on(name) is not None)


def program_on(name):
    """Id of the XDP program on an interface; None: there is none."""
    done = subprocess.run(["ip", "-j", "link", "show", "dev", name], capture_output=True, text=True)
    assert done.returncode == 0, f"ip link show {name}: {done.stderr}"
    return json.loads(done.stdout)[0].get("xdp", {}).get("prog", {}).get("id")


def pair(number):
    """Two ends of a wire: sent into the one, received behind the filter of the other."""
    make_veth(f"out{number}", f"in{number}")
    subprocess.run(["ethtool", "-K", f"out{number}", "txvlan", "off"], capture_output=True)
    wires = Wire(f"out{number}"), Wire(f"in{number}")
    wait_until_joined(*wires)
    return wires


def enforced(session, wires, what, frames=FRAMES):
    """The policy blocks the frames as it should; the counters of controld grow by them."""
    before = session.stats()
    sent = exchange(*wires, frames, what)
    dropped = sum(blocked for _, blocked in frames)
    after = session.stats()
    grown = {key: after[key] - before[key] for key in ("packets", "passed", "dropped")}
    assert grown == {"packets": sent, "passed": sent - dropped, "dropped": dropped}, f"{what}: counters"
    assert after["lists"]["blocked"]["dropped"] - before["lists"]["blocked"]["dropped"] == dropped, f"{what}: counter of the list"


def everything_passes(wires, what):
    exchange(*wires, [(frame, False) for frame, _ in FRAMES], what)


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    found = libc.syscall(SYS_BPF, command, buffer, 128)
    assert found >= 0, f"bpf({command}): {os.strerror(ctypes.get_errno())}"
    return found


class ForeignProgram:
    """An XDP program that passes everything; on an interface until it is closed."""

    def __init__(self, interface, name=b"foreign"):
        code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xb7, 0, 0, 2, 0x95, 0, 0, 0))  # XDP_PASS
        text = ctypes.create_string_buffer(b"Dual BSD/GPL")
        self.program = bpf(BPF_PROG_LOAD, struct.pack("<IIQQIIQII16s", PROG_TYPE_XDP, 2, ctypes.addressof(code),
                                                      ctypes.addressof(text), 0, 0, 0, 0, 0, name))
        with open(f"/proc/self/fdinfo/{self.program}", encoding="ascii") as file:
            self.id = int(dict(line.split(":") for line in file)["prog_id"])
        index = socket.if_nametoindex(interface)
        self.link = bpf(BPF_LINK_CREATE, struct.pack("<IIII", self.program, index, BPF_XDP, 0))

    def close(self):
        os.close(self.link)
        os.close(self.program)


class Flood:
    """Sends blocked frames until it is left. None of them may arrive."""

    def __init__(self, wires):
        self.near, self.far = wires
        self.frames = [frame for frame, blocked in FRAMES if blocked]
        self.is_over = threading.Event()
        self.sent = 0
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.is_over.is_set():
            self.near.send(self.frames[self.sent % len(self.frames)])
            self.sent += 1
            hold(0.0005)  # the pace of an attack

    def wait_for_more(self):
        enough = self.sent + 500
        until("more frames", lambda: self.sent >= enough)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.is_over.set()
        self.thread.join()
        if kind is None:
            marker = next(frame for frame, blocked in FRAMES if not blocked)
            self.near.send(marker)
            assert self.far.receive() == marker, f"one of {self.sent} blocked frames arrived"
