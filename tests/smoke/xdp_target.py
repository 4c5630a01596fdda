"""controld drives XDP: on veth pairs, in a network and a BPF file system of the test's own. What is blocked does not
arrive and is counted; what is pinned enforces through a crash; interfaces come, go and are detached; `status` says
where nothing is enforced, and why."""

import contextlib
import ctypes
import json
import os
import socket
import struct
import subprocess
import threading
import time

from weir_smoke import BUILD, Session, check, controlctl, equal, events, order_bypass, skips_without_namespaces, write
from wires import Wire, exchange, ip, make_frames, make_veth, own_bpf_file_system, own_network, wait_until_joined

SYS_BPF = 321                                        # x86-64
BPF_PROG_LOAD, BPF_OBJ_GET, BPF_LINK_CREATE, BPF_LINK_DETACH, BPF_XDP = 5, 7, 28, 34, 37  # linux/bpf.h
PROG_TYPE_XDP = 6
SOURCES = ("192.0.2.0/25", "2001:db8:bad::/48"), ("192.0.2.128/25", "2001:db8:a::/48")  # of wires.make_frames
FRAMES = make_frames(90)
BLOCKED = sum(blocked for _, blocked in FRAMES)
libc = ctypes.CDLL(None, use_errno=True)


def policy(session, interfaces, attach="auto", blocked=SOURCES[0], more=""):
    target = f"targets: [{{xdp: {{interfaces: [{', '.join(interfaces)}], attach: {attach}}}}}]"
    return policy_of(session, target, blocked, more)


def policy_of(session, targets, blocked=SOURCES[0], more=""):
    return write(session.folder, "weir.yaml", f"""\
version: 1
{targets}
{more}
lists:
  - {{name: blocked, action: drop, entries: ["{blocked[0]}", "{blocked[1]}"]}}
""")


def start(session):
    session.start_controld(session.path("weir.yaml"), targets=False, extra=["--bpf-dir", session.path("bpf")])


def interfaces(session):
    """{name: what status says}"""
    target, = controlctl(session, "status")["targets"]
    return {interface["name"]: interface for interface in target["interfaces"]}


def wait_attached(session, name, attached=True):
    session.wait(f"{name} to be {'attached' if attached else 'detached'}",
                 lambda: interfaces(session)[name]["attached"] == attached)


def program_on(name):
    """Id of the XDP program on an interface, None: there is none."""
    done = subprocess.run(["ip", "-j", "link", "show", "dev", name], capture_output=True, text=True)
    check(done.returncode == 0, f"ip link show {name}: {done.stderr}")
    return json.loads(done.stdout)[0].get("xdp", {}).get("prog", {}).get("id")


def pair(number, flipped=False):
    """Two ends of a wire: sent into the one, received behind the filter of the other."""
    make_veth(f"out{number}", f"in{number}")
    subprocess.run(["ethtool", "-K", f"out{number}", "txvlan", "off"], capture_output=True)
    wires = Wire(f"out{number}"), Wire(f"in{number}")
    wait_until_joined(*wires, flipped)
    return wires


def enforced(session, wires, what, flipped=False):
    """The frames as the policy says; the counters of controld grow by them."""
    before = session.stats()
    frames = [(frame, blocked != flipped) for frame, blocked in FRAMES]
    exchange(*wires, frames, what)
    dropped = sum(blocked for _, blocked in frames)
    after = session.stats()
    grown = {key: after[key] - before[key] for key in ("packets", "passed", "dropped")}
    equal(grown, {"packets": len(frames), "passed": len(frames) - dropped, "dropped": dropped}, f"{what}: counters")
    was = before["lists"]["blocked"]["dropped"]
    equal(after["lists"]["blocked"]["dropped"] - was, dropped, f"{what}: counters of the list")


def everything_passes(wires, what):
    exchange(*wires, [(frame, False) for frame, _ in FRAMES], what)


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    found = libc.syscall(SYS_BPF, command, buffer, 128)
    check(found >= 0, f"bpf({command}): {os.strerror(ctypes.get_errno())}")
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
    """Sends blocked frames all the while; none of them may arrive."""

    def __init__(self, wires):
        self.near, self.far = wires
        self.frames = [frame for frame, blocked in FRAMES if blocked]
        self.stopping = threading.Event()
        self.sent = 0
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stopping.is_set():
            self.near.send(self.frames[self.sent % len(self.frames)])
            self.sent += 1
            time.sleep(0.0005)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()
        check(self.sent > 0, "frames were sent")
        check(self.far.receive(0.2) is None, f"one of {self.sent} blocked frames arrived")


def follows_the_policy(session, wires):
    target, = controlctl(session, "status")["targets"]
    equal((target["socket"], target["workers"], target["isa"]), ("xdp:in0", 0, "bpf"), "the target in status")
    first = interfaces(session)["in0"]
    equal((first["attached"], first["mode"], first["error"]), (True, "native", ""), "in0 in status")
    enforced(session, wires, "the policy")
    code, out, err = session.controlctl("status")
    check(code == 0 and "attached, native" in out, f"status for people:\n{out}{err}")

    policy(session, ["in0"], blocked=SOURCES[1])
    equal(controlctl(session, "reload")["ok"], True, "reload of another policy")
    enforced(session, wires, "another policy", flipped=True)

    order_bypass(session, "on", "under XDP")
    everything_passes(wires, "bypass")
    session.wait("bypass in status", lambda: controlctl(session, "status")["targets"][0]["bypass"])
    order_bypass(session, "off", "under XDP")
    enforced(session, wires, "after bypass", flipped=True)


def tells_of_itself(session):
    top = controlctl(session, "top", "--once")
    target, = top["targets"]
    equal((target["state"], target["workers"]), ("measured", []), "top")
    equal([(port["name"], port["driver"], port["link_up"]) for port in target["ports"]], [("in0", "native", True)],
          "ports of top")
    for command in (["top", "--once"], ["capture"], ["stats"]):
        code, out, err = session.controlctl(*command)
        check(code == 0 and "in0" in out, f"controlctl {command}: {code}\n{out}{err}")


def stays_on_its_interface(session, wires):
    for was, now in (("in0", "other0"), ("other0", "in0")):
        for change in (["down"], ["name", now]):
            ip("link", "set", was, *change)
            was = now if change[0] == "name" else was
        ip("link", "set", now, "up")
        for wire in wires:
            with contextlib.suppress(OSError):  # told once that it was down
                wire.receive(0.1)
        wait_until_joined(*wires)
        enforced(session, wires, f"in0 is called {now}")
        equal(interfaces(session)["in0"]["attached"], True, f"status when in0 is called {now}")
    session.wait("the log to say so", lambda: events(session.log("controld"), interface="in0", name="other0"))
    path = ctypes.create_string_buffer(session.path("bpf/weir_link_in0").encode())
    link = bpf(BPF_OBJ_GET, struct.pack("<QII", ctypes.addressof(path), 0, 0))
    bpf(BPF_LINK_DETACH, struct.pack("<I", link))
    os.close(link)
    session.wait("a program on in0 again", lambda: program_on("in0") is not None)
    enforced(session, wires, "after somebody detached it")
    session.wait("the log to say so", lambda: events(
        session.log("controld"), "xdp attached again", interface="in0", cause="it was detached by somebody else"))


def outlives_controld(session, wires):
    program, before = program_on("in0"), session.stats()
    session.kill("controld")
    frames = [(frame, not blocked) for frame, blocked in FRAMES]
    exchange(*wires, frames, "after a crash of controld")
    start(session)
    session.wait_enforced()
    equal(program_on("in0"), program, "the program after a restart of controld")
    after = session.stats()
    dropped = len(FRAMES) - BLOCKED
    equal(after["lists"]["blocked"]["dropped"] - before["lists"]["blocked"]["dropped"], dropped,
          "what was dropped while there was no controld")
    equal(after["targets"][0]["start_time"], before["targets"][0]["start_time"], "counts since")
    enforced(session, wires, "after a restart of controld", flipped=True)

    session.stop("controld")
    exchange(*wires, frames, "after controld was stopped")
    start(session)
    session.wait_enforced()
    equal(program_on("in0"), program, "the program after a stop of controld")


def interfaces_come_and_go(session, wires):
    for wire in wires:
        wire.close()
    ip("link", "del", "in0")
    wait_attached(session, "in0", False)
    check(interfaces(session)["in0"]["error"], "why in0 is not attached")
    code, out, err = session.controlctl("reload")
    check(code == 3 and "not attached to in0" in err, f"a reload while in0 is away: {code}\n{out}{err}")
    wires = pair(0, flipped=True)  # what it blocks is blocked there at once
    wait_attached(session, "in0")
    enforced(session, wires, "an interface that came back", flipped=True)

    return wires


def lists_of_interfaces(session, first, second):
    """in0 stays in the policy throughout: nothing gets through there, whatever else changes."""
    policy(session, ["in0"])
    equal(controlctl(session, "reload")["ok"], True, "reload with in0")
    program = program_on("in0")
    with Flood(first):
        policy(session, ["in0", "in1"])
        equal(controlctl(session, "reload")["ok"], True, "reload with a second interface")
        time.sleep(0.5)
    equal(controlctl(session, "status")["targets"][0]["socket"], "xdp:in0,in1", "the target in status")
    equal(program_on("in0"), program, "the program of the interface that stays")
    enforced(session, first, "the first of two interfaces")
    enforced(session, second, "the second interface")

    with Flood(first):
        policy(session, ["in0"])
        equal(controlctl(session, "reload")["ok"], True, "reload without the second interface")
        time.sleep(0.5)
    equal(program_on("in1"), None, "the program of the interface that left the policy")
    everything_passes(second, "an interface that left the policy")
    check(events(session.log("controld"), "xdp detached", interfaces="in1"), "the log says so")
    enforced(session, first, "the interface that stays")


def says_what_is_wrong(session, wires):
    for kind in ("dummy", "ifb", "bridge"):  # none has native support; not every kernel has each
        if subprocess.run(["ip", "link", "add", "plain0", "type", kind], capture_output=True).returncode == 0:
            break
    policy(session, ["in0", "plain0"], attach="native")
    code, out, err = session.controlctl("reload")
    check(code == 3 and "not attached to plain0: " in err, f"reload with `attach: native`: {code}\n{out}{err}")
    found = interfaces(session)
    equal((found["in0"]["mode"], found["plain0"]["attached"]), ("native", False), "attach: native")
    code, out, err = session.controlctl("status")
    check("NOT EVERYWHERE" in out and "NOT ATTACHED" in out, f"status for people:\n{out}")
    enforced(session, wires, "beside an interface that is not attached")

    policy(session, ["in0", "plain0"])
    equal(controlctl(session, "reload")["ok"], True, "reload with `attach: auto`")
    found = interfaces(session)
    equal((found["in0"]["mode"], found["plain0"]["mode"]), ("native", "generic"), "attach: auto")
    check(events(session.log("controld"), "xdp attached behind the driver: slower", interface="plain0"), "the log says that it is slower")
    for attach in ("generic", "native"):
        policy(session, ["in0"], attach=attach)
        equal(controlctl(session, "reload")["ok"], True, f"reload with `attach: {attach}`")
        equal(interfaces(session)["in0"]["mode"], attach, f"attach: {attach}")
        enforced(session, wires, f"attach: {attach}")


def leaves_other_programs_alone(session, second):
    other = ForeignProgram("in1", b"weir")
    policy(session, ["in0", "in1"])
    code, out, err = session.controlctl("reload")
    check(code == 3 and "another controld enforces there already" in err and "ip link" not in err,
          f"another controld's program: {code}\n{out}{err}")
    policy(session, ["in0"])
    equal(controlctl(session, "reload")["ok"], True, "reload without its interface")
    other.close()

    foreign = ForeignProgram("in1")
    policy(session, ["in0", "in1"])
    code, out, err = session.controlctl("reload")
    check(code == 3 and "foreign" in err and str(foreign.id) in err, f"another XDP program: {code}\n{out}{err}")
    equal(program_on("in1"), foreign.id, "the program of somebody else")
    foreign.close()
    wait_attached(session, "in1")
    enforced(session, second, "after another program went")


def detaches(session, first, second):
    equal(controlctl(session, "detach", "in1"), {"ok": True, "controld": True, "detached": ["in1"],
                                                 "version": controlctl(session, "status")["version"]}, "detach in1")
    everything_passes(second, "detached")
    wait_attached(session, "in1", False)
    time.sleep(2.5)  # longer than it takes to attach to what came back
    check("on demand" in interfaces(session)["in1"]["error"], "why in1 is not attached")
    equal(program_on("in1"), None, "the program of a detached interface")
    enforced(session, first, "the other interface")
    controlctl(session, "detach", "no-such-if", expect=1)
    equal(controlctl(session, "reload")["ok"], True, "reload after detach")
    enforced(session, second, "attached again by a reload")
    equal(sorted(controlctl(session, "detach")["detached"]), ["in0", "in1"], "detach of all")
    for wires in (first, second):
        everything_passes(wires, "all detached")
    equal(controlctl(session, "reload")["ok"], True, "reload after detach of all")
    enforced(session, first, "all attached again")

    session.kill("controld")
    options = ["--bpf-dir", session.path("bpf")]
    code, out, err = session.controlctl("detach", "in1", "--json", *options)
    check(code == 0 and "no controld answers" in err, f"detach without controld: {code}\n{out}{err}")
    equal(json.loads(out)["detached"], ["in1"], "detach without controld")
    everything_passes(second, "detached without controld")
    exchange(*first, FRAMES, "the other interface, without controld")
    code, out, err = session.controlctl("detach", "in1", *options)
    check(code == 1 and "in1" in err, f"detach of what is not attached: {code}\n{out}{err}")
    equal(session.controlctl("detach", *options)[0], 0, "detach of all without controld")
    everything_passes(first, "all detached without controld")
    equal([name for name in os.listdir(session.path("bpf")) if name.startswith("weir")], [], "pins")


def without_a_target(session, first):
    start(session)
    session.wait_enforced()
    enforced(session, first, "started after detach")
    session.stop("controld")
    policy_of(session, "targets: []")
    start(session)
    check("on an interface that no target names: `controlctl detach` takes it off interface=in0 " in session.log("controld"), "the log says what is left over")
    exchange(*first, FRAMES, "without an xdp target at the start")
    equal(sorted(controlctl(session, "detach", "in0")["detached"]), ["in0"], "detach of what no target names")
    everything_passes(first, "detached, though no target names it")

    policy(session, ["in0", "in1"])
    equal(controlctl(session, "reload")["ok"], True, "reload with a target")
    enforced(session, first, "a target that came by a reload")
    policy_of(session, "targets: []")
    equal(controlctl(session, "reload")["ok"], True, "reload without the target")
    equal([program_on("in0"), program_on("in1")], [None, None], "programs after the target went")
    check(events(session.log("controld"), "xdp detached", interfaces="in0,in1"), "the log says so")


def gave_up_what_it_needs(session, first):
    """Neither the policy nor the last good named an xdp target when controld started."""
    session.stop("controld")
    start(session)
    policy(session, ["in0"])
    code, out, err = session.controlctl("reload")
    check(code == 3 and "gave up what that needs" in err and "start controld anew" in err,
          f"a reload with the first xdp target: {code}\n{out}{err}")
    time.sleep(2.5)  # longer than it takes to try again
    target, = controlctl(session, "status")["targets"]
    check("start controld anew" in target["last_error"], f"status: {target}")
    code, out, err = session.controlctl("status")
    check("start controld anew" in out, f"status for people:\n{out}{err}")
    check("start controld anew" in session.log("controld"), "the log says so")
    everything_passes(first, "an xdp target that cannot be had")
    session.stop("controld")
    start(session)
    session.wait_enforced()
    equal(controlctl(session, "status")["targets"][0]["last_error"], "", "status after a restart")
    enforced(session, first, "an xdp target after a restart")


def starts_on_a_bad_policy(session, first):
    policy(session, ["in0"])
    equal(controlctl(session, "reload")["ok"], True, "reload with a target")
    session.kill("controld")
    write(session.folder, "weir.yaml", "version: 1\nnonsense: x\ntargets: [{xdp: {interfaces: [in0]}}]\nlists: []\n")
    start(session)
    session.wait_enforced()
    equal(controlctl(session, "status")["from_last_good"], True, "the last good")
    enforced(session, first, "the last good, on the interfaces of a bad policy")


own_network()
with Session(BUILD) as session, own_bpf_file_system(session.path("bpf")):
    first = pair(0)
    policy(session, ["in0"], more="capture: {one_in: 10}")
    start(session)
    session.wait_enforced()
    tells_of_itself(session)
    stays_on_its_interface(session, first)
    follows_the_policy(session, first)
    outlives_controld(session, first)
    first = interfaces_come_and_go(session, first)
    second = pair(1)
    lists_of_interfaces(session, first, second)
    says_what_is_wrong(session, first)
    leaves_other_programs_alone(session, second)
    detaches(session, first, second)
    without_a_target(session, first)
    gave_up_what_it_needs(session, first)
    starts_on_a_bad_policy(session, first)
