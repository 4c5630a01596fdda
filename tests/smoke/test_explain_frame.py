"""`controlctl explain` of frames: of a capture (--pcap, --frame), of hexadecimal digits (--packet, also on stdin), and over the API.

Its verdicts are those of the data plane and of the reference, for VLAN tags, labels, IPv6, tunnels in tunnels, other protocols and
truncated frames."""

import json
import os
import struct
import subprocess

import pytest

from weir_smoke import (BUILD, Capture, agrees_with_reference, controlctl, make_samples, outputs, read, read_capture, sort_out, write,
                        write_capture)
from frames import (ACK, HOP_BY_HOP, SYN, TCP, V4, V6, Data, Ethernet, Extension, Frame, Geneve, Gre, Icmp, Mpls, Vlan, Vxlan, WithPorts,
                    number_of, udp)

POLICY = """version: 1
policy: {default: pass, unparsed: drop, tunnels: [vxlan, gre, 6in4], own: [192.0.2.1]}
lists:
  - {name: partners, action: pass, match: src, entries: [192.0.2.64/26]}
  - {name: hosts, action: drop, match: src, entries: [192.0.2.66, 203.0.113.7, "2001:db8::7"]}
  - name: services
    action: drop
    entries:
      - 203.0.113.64/26
      - {dst: 203.0.113.9, proto: tcp, dport: 8000-8010}
      - {dst: 203.0.113.9, proto: tcp, tcp_flags: {set: [syn], mask: [syn, ack]}}
      - {src: 203.0.113.10, expires: 2006-12-01T00:00:00Z}
  - {name: watch, action: drop, mode: monitor, match: either, entries: [203.0.113.0/24, "2001:db8::/32"]}
"""


def v4(source, destination="198.51.100.1"):
    return V4(number_of(source), number_of(destination))


def v6(source, destination="2001:db8:ffff::1"):
    return V6(number_of(source), number_of(destination))


def of(*headers):
    return Frame([Ethernet(), *headers]).bytes


DNS = (udp(4000, 53), Data())
WEB = (WithPorts(TCP, 40000, 443, SYN), Data())
HOST = of(v4("203.0.113.7"), *DNS)
# Its name, the frame, then the expected outcome, action, reason, layer that decides, number of layers.
FRAMES = (
    ("a host that is listed", HOST, "ip", "drop", "hosts", 1, 1),
    ("an innocent one", of(v4("198.51.100.9"), *DNS), "ip", "pass", "default", 0, 1),
    ("a listed partner", of(v4("192.0.2.66"), *WEB), "ip", "pass", "partners", 1, 1),
    ("a listed address to an own address", of(v4("203.0.113.7", "192.0.2.1"), *WEB), "ip", "drop", "hosts", 1, 1),
    ("behind two tags", of(Vlan(0x88a8), Vlan(), v4("203.0.113.7"), *DNS), "ip", "drop", "hosts", 1, 1),
    ("behind a label", of(Mpls(), v4("203.0.113.7"), *DNS), "ip", "drop", "hosts", 1, 1),
    ("IPv6 with an extension header", of(v6("2001:db8::7"), Extension(HOP_BY_HOP), *DNS), "ip", "drop", "hosts", 1, 1),
    ("in VXLAN", of(v4("198.51.100.8"), udp(5000, 4789), Vxlan(), Ethernet(), Vlan(), v4("203.0.113.7", "203.0.113.9"),
                    WithPorts(TCP, 40000, 443, ACK), Data()),
     "ip", "drop", "hosts", 2, 2),
    ("in GRE, behind a partner", of(v4("192.0.2.70"), Gre(), v4("203.0.113.7"), *WEB), "ip", "drop", "hosts", 2, 2),
    ("IPv6 in IPv4 in VXLAN", of(v4("198.51.100.8"), udp(5000, 4789), Vxlan(), Ethernet(), v4("198.51.100.7"), v6("2001:db8::7"),
                                 *WEB), "ip", "drop", "hosts", 3, 3),
    ("in Geneve, which the policy does not name", of(v4("198.51.100.8"), udp(5000, 6081), Geneve(), v4("203.0.113.7"), *WEB),
     "ip", "pass", "default", 0, 1),
    ("a flow", of(v4("198.51.100.8", "203.0.113.9"), WithPorts(TCP, 1, 8005, ACK), Data()), "ip", "drop", "services", 1, 1),
    ("its neighbour", of(v4("198.51.100.8", "203.0.113.9"), WithPorts(TCP, 1, 8011, ACK), Data()), "ip", "pass", "default", 0, 1),
    ("a SYN", of(v4("198.51.100.8", "203.0.113.9"), *WEB), "ip", "drop", "services", 1, 1),
    ("an entry that has ended", of(v4("203.0.113.10"), *WEB), "ip", "pass", "default", 0, 1),
    ("ICMP to what is watched", of(v4("198.51.100.8", "203.0.113.20"), Icmp(1, 8, 0)), "ip", "pass", "default", 0, 1),
    ("ARP", of(Data(bytes(28), ethertype=0x0806)), "not_ip", "pass", "not_ip", 0, 0),
    ("cut in the IP header", HOST[:30], "malformed", "drop", "unparsed", 0, 0),
    ("cut in the tag", of(Vlan(), v4("203.0.113.7"), *DNS)[:16], "malformed", "drop", "unparsed", 0, 0),
    ("an extension header that is cut", of(v6("2001:db8::7"), Extension(HOP_BY_HOP), *DNS)[:58], "ip", "drop", "hosts", 1, 1),
)

# The text for the frame in VXLAN.
SHOWN = """frame of 112 bytes, its layer 2 decides: drop by list hosts: 203.0.113.7 (explain.yaml:5); only monitored by watch

layer 1 of 2
  packet   src 198.51.100.8 dst 198.51.100.1 proto udp sport 5000 dport 4789 length 98
  verdict  pass by default: no list decides
  gate     source: keeps it out: nothing is looked up at this side
  gate     destination: keeps it out: nothing is looked up at this side
  no key is looked up

layer 2 of 2, in vxlan
  packet   src 203.0.113.7 dst 203.0.113.9 proto tcp sport 40000 dport 443 tcp-flags ack length 44
  verdict  drop by list hosts: 203.0.113.7 (explain.yaml:5); only monitored by watch
  gate     source: lets it through
  gate     destination: lets it through

keys
side         key type    key             found   lists
source       v4 addr/32  203.0.113.7/32  rule 4  hosts, watch
destination  v4 addr/32  203.0.113.9/32  rule 5  watch

conditions
of rule  asks                       holds  lists
5        tcp dport 8000-8010        no     services
5        tcp tcp-flags syn/syn,ack  no     services

entries that match it
list   entry           match     written at
hosts  203.0.113.7     src       explain.yaml:5
watch  203.0.113.0/24  src, dst  explain.yaml:13
"""


def summary(answer):
    return (answer["outcome"], answer["verdict"]["action"], answer["verdict"]["reason"], answer["layer"], len(answer["layers"]))


def refused(session, words, *arguments, code=1):
    found, out, err = session.controlctl("explain", *arguments)
    assert found == code and words in err and not out, f"explain {' '.join(arguments)}: {found}: {out}{err}"


def block(kind, body):
    """A block of a pcapng file."""
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def write_pcapng(path, frames):
    with open(path, "wb") as file:
        file.write(block(0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1)) + block(1, struct.pack("<HHI", 1, 0, 0)))
        for frame in frames:
            file.write(block(6, struct.pack("<IIIII", 0, 0, 0, len(frame), len(frame)) + frame))


def of_stdin(session, text):
    done = subprocess.run([os.path.join(BUILD, "control/controlctl"), "--socket", session.path("controld.sock"), "explain", "--json",
                           "--packet", "-"], input=text, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def dropped_by_both(session, policy, pcap, frames):
    """Numbers of the frames that a data plane drops, and the reference."""
    agrees_with_reference(session.folder, policy, pcap)
    passed, dropped = (read_capture(path).frames for path in outputs(session.folder, "replay")[:2])
    return set(sort_out(frames, passed, dropped)[1])


def number_of_frame(name):
    return str(1 + [row[0] for row in FRAMES].index(name))


@pytest.fixture
def policy(session):
    return write(session.folder, "explain.yaml", POLICY)


@pytest.fixture
def pcap(session):
    """A capture of FRAMES. A byte of the first was not captured."""
    path = session.path("frames.pcap")
    write_capture(path, Capture(frames=[row[1] for row in FRAMES],
                                headers=[(1, number, len(row[1]) + (number == 0)) for number, row in enumerate(FRAMES)]))
    return path


@pytest.fixture
def controld(session, policy):
    session.start_controld(policy, targets=False)
    return session


def test_a_frame_of_a_capture_is_explained_as_it_is_enforced(controld, policy, pcap):
    dropped = dropped_by_both(controld, policy, pcap, [row[1] for row in FRAMES])
    for number, (name, frame, *expected) in enumerate(FRAMES):
        answer = controlctl(controld, "explain", "--pcap", pcap, "--frame", str(number + 1))
        assert summary(answer) == tuple(expected), name
        assert (answer["verdict"]["action"] == "drop") == (number in dropped), f"{name}: verdict of the data plane"
        assert answer["bytes"] == len(frame), f"{name}: bytes"
        assert controld.call("explain", frame=frame.hex())["verdict"] == answer["verdict"], f"{name}: over the API"
    assert answer["incomplete"] and answer["layers"][0]["incomplete"], f"a truncated chain is incomplete: {answer}"


def test_a_pcapng_is_explained_as_a_pcap(controld, pcap):
    number = number_of_frame("IPv6 in IPv4 in VXLAN")
    tunnels = controlctl(controld, "explain", "--pcap", pcap, "--frame", number)
    assert [layer.get("tunnel") for layer in tunnels["layers"]] == [None, "vxlan", "6in4"], "tunnels of the layers"
    write_pcapng(controld.path("frames.pcapng"), [row[1] for row in FRAMES])
    assert controlctl(controld, "explain", "--pcap", controld.path("frames.pcapng"), "--frame", number) == tunnels, "of a pcapng"


def test_an_answer_has_conditions_and_places_of_entries(controld, policy, pcap):
    flow, neighbour = (controlctl(controld, "explain", "--pcap", pcap, "--frame", number_of_frame(name))
                       for name in ("a flow", "its neighbour"))
    for answer, holds in ((flow, True), (neighbour, False)):
        of_key = [condition["holds"] for layer in answer["layers"] for key in layer["keys"] for condition in key["conditions"]]
        assert any(of_key) == holds, f"conditions that hold: {of_key}"
        assert len(of_key) >= 2, f"conditions: {of_key}"
    entry = flow["verdict"]["because"]
    assert entry["file"] == policy, "file of the entry that decides"
    assert "8000-8010" in POLICY.splitlines()[entry["line"] - 1], f"its line: {entry}"


def test_a_frame_is_given_as_digits_or_on_stdin(controld):
    assert controlctl(controld, "explain", "--packet", HOST.hex(":"))["verdict"]["action"] == "drop", "digits with colons"
    code, out, err = of_stdin(controld, HOST.hex(" ") + "\n")
    assert code == 0 and json.loads(out)["verdict"]["action"] == "drop", f"stdin: {out}{err}"
    code, out, err = of_stdin(controld, "00" * 65536)
    assert code == 1 and "stdin: frame: there are more than 65535 bytes: character 131071 begins one more" in err, f"{out}{err}"
    assert controlctl(controld, "explain", "--packet", "02")["outcome"] == "malformed", "one byte"
    assert controlctl(controld, "explain", "--packet", (HOST + bytes(65535 - len(HOST))).hex())["bytes"] == 65535, "the longest"
    refused(controld, "character 3, `x`, is no hexadecimal digit", "--packet", "02x0")


def test_the_text_has_the_verdict_first_and_then_the_layers(controld, pcap):
    _, text, err = controld.controlctl("explain", "--pcap", pcap, "--frame", number_of_frame("in VXLAN"), "--verbose")
    first, text = text.split("\n", 1)
    assert first == "NOT ENFORCED: 0 of 1 targets. The policy says:", "what packets meet now"
    shown = text.replace(controld.folder + "/", "").split("\ngeneration")
    assert shown[0][:len(SHOWN)] == SHOWN, "verdict and layers"
    assert "\nhosts: 203.0.113.7 (explain.yaml:5)\n  line     - {name: hosts, " in shown[0], f"places of entries: {shown[0]}"
    assert "filter  line8, page" in shown[1] and "exact   rule" in shown[1] and not err, text + err
    _, text, err = controld.controlctl("explain", "--pcap", pcap, "--frame", "1")
    assert f"{len(HOST)} of {len(HOST) + 1} bytes of frame 1 of {pcap} were captured" in err, err


def test_a_wrong_capture_is_refused_with_its_place(controld, policy, pcap):
    last = str(len(FRAMES))
    refused(controld, f"{pcap} has {last} frames: there is no frame {len(FRAMES) + 1}", "--pcap", pcap, "--frame", str(len(FRAMES) + 1))
    refused(controld, "none.pcap: No such file", "--pcap", controld.path("none.pcap"), "--frame", "1")
    refused(controld, "is no capture", "--pcap", policy, "--frame", "1")
    captured = bytearray(read(pcap))
    with open(controld.path("short.pcap"), "wb") as file:
        file.write(captured[:-3])
    refused(controld, f"cannot be read behind frame {len(FRAMES) - 1}", "--pcap", controld.path("short.pcap"), "--frame", last)
    captured[20] = 113  # LINKTYPE_LINUX_SLL
    with open(controld.path("any.pcap"), "wb") as file:
        file.write(captured)
    refused(controld, "link type LINUX_SLL (Linux cooked v1), not of Ethernet", "--pcap", controld.path("any.pcap"), "--frame", "1")
    for wrong in (("--frame", "1"), ("--pcap", pcap, "--packet", "02"), ("203.0.113.7", "--packet", "02"), (),
                  ("--pcap", pcap, "--frame", "0")):
        refused(controld, "", *wrong, code=2)


def test_samples_are_explained_as_they_are_enforced(session):
    make_samples(session.folder, flows=300, frames=1500)  # and a policy for them
    policy, pcap = session.path("weir.yaml"), session.path("capture.pcap")
    samples = read_capture(pcap).frames
    dropped = dropped_by_both(session, policy, pcap, samples)
    session.start_controld(policy, targets=False)
    drops = 0
    for number, frame in enumerate(samples):
        answer = session.call("explain", frame=frame.hex())
        assert (answer["verdict"]["action"] == "drop") == (number in dropped), f"sample {number + 1}, {frame.hex()}"
        drops += number in dropped
    assert drops > 100, f"samples that drop: {drops} of {len(samples)}"
