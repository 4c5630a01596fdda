"""`controlctl flowspec` between controld and the real ExaBGP and GoBGP: rules are enforced when they are announced, and gone when they are
withdrawn; what weir has no entry for is refused and said; entries outlive a session for a while; what weir drops is announced; a neighbour that
is hostile, or another one, does no harm. Then random rules of both, beside what they mean."""

import ipaddress
import json
import os
import socket
import struct
import time

from weir_smoke import BUILD, Session, check, controlctl, equal, skip, write  # first: it knows where the next ones are
from fleet_flowspec import Speaker, measure
from flowspec_peers import OURS, PEERS, THEIRS, ExaBgp
from namespaces import free_port
from flowspec_rules import (DESTINATION, DPORT, EQUAL, FRAGMENT, INVERTED, LAST, LESS, MATCH, PORT, PROTOCOL, SOURCE, TCP, TCP_FLAGS, UDP, Rule)

POLICY = """version: 1
targets: []
lists:
  - {name: rules, action: drop, dynamic: true, allow_any: true}
  - {name: strict, action: drop, dynamic: true, max_ttl: 1h}
  - {name: bans, action: drop, match: either, dynamic: true, entries: [198.51.100.0/24]}
  - {name: friends, action: pass, dynamic: true}
  - {name: files, action: drop, entries: [192.0.2.200]}
"""
MARKER = b"\xff" * 16


def network(text):
    return ipaddress.ip_network(text)


def rule(destination, protocol, *more):
    return Rule(4, {DESTINATION: network(destination), PROTOCOL: [(False, EQUAL, protocol)], **dict(more)})


NTP = rule("192.0.2.0/24", UDP, (PORT, [(False, EQUAL, 123)]))
SYN = rule("192.0.2.7/32", TCP, (TCP_FLAGS, [(False, MATCH, 2), (True, INVERTED, 16)]))
LOW = rule("203.0.113.0/24", TCP, (DPORT, [(False, LESS, 1024)]))
SAME = Rule(4, {DESTINATION: network("203.0.113.0/24"), PROTOCOL: [(False, EQUAL, TCP), (False, EQUAL, UDP)], DPORT: [(False, LESS, 1024)]})
V6 = Rule(6, {DESTINATION: network("2001:db8::/64"), SOURCE: network("2001:db8:1::/48")})
LATER = Rule(4, {DESTINATION: network("203.0.113.9/32"), FRAGMENT: [(False, MATCH, LAST)]})
PACKETS = {  # what is asked -> the rules that drop it
    "src 1.2.3.4 dst 192.0.2.9 proto udp sport 123 dport 9": "NTP",
    "src 1.2.3.4 dst 192.0.2.9 proto udp sport 9 dport 124": "",
    "src 1.2.3.4 dst 192.0.2.7 proto tcp tcp-flags syn": "SYN",
    "src 1.2.3.4 dst 192.0.2.7 proto tcp tcp-flags syn,ack": "",
    "src 1.2.3.4 dst 203.0.113.5 proto tcp dport 80": "LOW SAME",
    "src 1.2.3.4 dst 203.0.113.5 proto udp dport 80": "SAME",
    "src 1.2.3.4 dst 203.0.113.5 proto udp dport 1024": "",
    "src 2001:db8:1::9 dst 2001:db8::7": "V6",
    "src 2001:db8:2::9 dst 2001:db8::7": "",
}


def verdicts(session, what, *in_force):
    for packet, rules in PACKETS.items():
        code, out, err = session.controlctl("test", packet)
        check(code in (0, 1), f"{packet}: {out}{err}")
        equal(code == 0, bool(set(rules.split()) & set(in_force)), f"{what}: {packet} drops")


def entries(session, name="rules"):
    return {entry["entry"]: entry for entry in session.call("entries", name=name)["entries"]}


def comes(session, what, test, seconds=60):
    session.wait(what, test, seconds)


def with_peer(peer_class):
    with Session(BUILD) as session:
        session.start_controld(write(session.folder, "flowspec.yaml", POLICY), targets=False)
        with peer_class(session.path("peer")) as peer:
            speaker = Speaker(session, peer, "--list", "rules", "--announce", "bans", "--every", "1")
            speaker.wait("a session", lambda status: status["state"] == "established")

            # Announced: enforced. What weir has no entry for is refused, and said.
            peer.announce([NTP, SYN, LOW, SAME, V6, LATER])
            peer.announce([rule("192.0.2.77/32", UDP)], "rate-limit 10000")
            speaker.wait_for(7)
            verdicts(session, "announced", "NTP", "SYN", "LOW", "SAME", "V6")
            refusals = speaker.refusals()
            equal(len(refusals), 2, f"rules that are refused: {refusals}")
            check("fragment" in refusals["dst 203.0.113.9/32 fragment =0x8"], refusals)
            check("traffic-rate 10000 bytes/s" in refusals["dst 192.0.2.77/32 proto 17"], refusals)
            check('flowspec rule refused rule="dst 192.0.2.77/32 proto 17" peer=127.0.0.1' in speaker.log(), speaker.log())
            of_syn = entries(session)["dst 192.0.2.7 tcp tcp-flags syn/syn,ack"]
            check(of_syn["comment"].startswith("flowspec 127.0.0.1: dst 192.0.2.7/32 proto 6 tcp-flags "), of_syn)
            check("expires" not in of_syn, of_syn)

            # Withdrawn: gone, but for what another rule has, too.
            peer.withdraw([LOW, SYN])
            speaker.wait_for(5)
            verdicts(session, "two withdrawn", "NTP", "SAME", "V6")
            peer.withdraw([SAME])
            speaker.wait_for(4)
            verdicts(session, "the other one", "NTP", "V6")
            # Somebody's own entry stays.
            controlctl(session, "add", "192.0.2.99", "--list", "rules", "--comment", "mine")
            peer.announce([LOW])
            speaker.wait_for(5)

            # What weir drops is announced, and withdrawn when it goes.
            comes(session, "the entry of the file", lambda: len(peer.received()) == 2)  # as source and as destination
            controlctl(session, "add", "src 10.0.0.0/8 dst 203.0.113.9 proto tcp dport 8000-8010", "2001:db8::/48", "--list", "bans")
            comes(session, "what was added", lambda: len(peer.received()) == 5)
            text = json.dumps(sorted(peer.received()))
            for part in ("203.0.113.9/32", "10.0.0.0/8", "8010", "2001:db8::/48", "198.51.100.0/24"):
                check(part in text, f"{part} of {text}")
            controlctl(session, "del", "2001:db8::/48", "--list", "bans")
            comes(session, "what was deleted", lambda: len(peer.received()) == 3)

            # Who takes an entry out, or a peer that is gone: entries stay for a while, and what is not announced again goes.
            peer.stop(kill=True)
            comes(session, "entries to have an end", lambda: all(
                "expires" in entry for entry in entries(session).values() if entry["comment"] != "mine"))
            verdicts(session, "without a session", "NTP", "V6", "LOW")
            left = [entry["expires"] - time.time() for entry in entries(session).values() if "expires" in entry]
            check(all(500 < seconds <= 600 for seconds in left), f"ends in {left} s")
            peer.start()
            speaker.wait("another session", lambda status: status["state"] == "established")
            peer.announce([NTP, SYN])
            comes(session, "what is not announced again to go", lambda: "dst 2001:db8::/64" not in str(entries(session)), 90)
            comes(session, "what is to stay", lambda: not any("expires" in entry for entry in entries(session).values()))
            verdicts(session, "after another session", "NTP", "SYN")
            check("192.0.2.99" in entries(session), "somebody's own entry")
            comes(session, "the announcements", lambda: len(peer.received()) >= 3)

            # It ends: entries stay for a while, and the next one takes them up.
            equal(speaker.stop(), 0, "exit code")
            ours = [entry for entry in entries(session).values() if entry["comment"] != "mine"]
            check(ours and all("expires" in entry for entry in ours), f"after the end: {ours}")
            peer.stop()


def with_stale(session):
    """A short --stale, and a list with max_ttl, whose entries stay as long as they are announced."""
    with ExaBgp(session.path("stale")) as peer:
        speaker = Speaker(session, peer, "--list", "strict", "--stale", "3s")
        speaker.wait("a session", lambda status: status["state"] == "established")
        # Without an address: all of them, which the list does not allow.
        peer.announce([NTP, Rule(4, {PROTOCOL: [(False, EQUAL, 47)]})])
        speaker.wait_for(2)
        check("allow_any" in speaker.refusals()["proto 47"], speaker.refusals())
        check(all(3500 < entry["expires"] - time.time() <= 3600 for entry in entries(session, "strict").values()), "max_ttl of the list")
        peer.stop(kill=True)
        comes(session, "entries to end", lambda: not entries(session, "strict"), 20)
        speaker.wait("rules to be gone", lambda status: status["rules"] == 0)
        speaker.stop()


def message(kind, body=b""):
    return MARKER + struct.pack(">HB", 19 + len(body), kind) + body


def receive(connection):
    """Types of the messages that came; ends when nothing more does, or the other side has closed."""
    connection.settimeout(3)
    data, types = b"", []
    try:
        while part := connection.recv(65536):
            data += part
    except (TimeoutError, ConnectionError):
        pass
    while len(data) >= 19:
        length, kind = struct.unpack_from(">HB", data, 16)
        types.append((kind, data[19:length]))
        data = data[length:]
    return types


class Nobody:
    """No program: a port that we listen at."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        os.makedirs(folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def options(self):
        return ["--peer", "127.0.0.1", "--listen", f"127.0.0.1:{self.port}", "--as", str(OURS), "--peer-as", str(THEIRS)]

    def log(self):
        return ""

    def say(self, data, address="127.0.0.1"):
        with socket.create_connection(("127.0.0.1", self.port), 10, (address, 0)) as connection:
            connection.sendall(data)
            return receive(connection)


def with_hostile(session):
    peer = Nobody(session.path("hostile"))
    speaker = Speaker(session, peer, "--list", "rules")
    speaker.wait("the program", lambda status: status["state"] == "waiting")
    opened = message(1, struct.pack(">BHHIB", 4, THEIRS, 90, 7, 8) + bytes((2, 6, 1, 4, 0, 1, 0, 133)))
    alive = message(4)
    reach = bytes.fromhex("0001 85 00 00 05 01 18 c6 33 64")           # dst 198.51.100.0/24
    drop = bytes.fromhex("c0 10 08 80 06 00 00 00 00 00 00 40 01 01 00")  # and ORIGIN
    path = bytes.fromhex("40 02 04 02 01") + struct.pack(">H", THEIRS)

    def update(attributes):
        return message(2, b"\0\0" + struct.pack(">H", len(attributes)) + attributes)

    good = update(bytes((0x80, 14, len(reach))) + reach + drop + path)
    rows = (  # what, bytes, the NOTIFICATION, words of the log
        ("no BGP", b"GET / HTTP/1.1\r\n\r\n", (1, 1), "this is no BGP"),
        ("another AS", message(1, struct.pack(">BHHIB", 4, 64999, 90, 7, 8) + bytes((2, 6, 1, 4, 0, 1, 0, 133))), (2, 2), "the peer is AS 64999"),
        ("no FlowSpec", message(1, struct.pack(">BHHIB", 4, THEIRS, 90, 7, 0)), (2, 7), "the peer carries no FlowSpec"),
        ("an OPEN twice", opened + opened, (5, 0), "at the wrong time"),
        ("lengths that are wrong", opened + alive + message(2, b"\0\x09\0\0"), (3, 1), "its lengths are wrong"),
        ("a rule longer than its field", opened + alive + update(bytes.fromhex("80 0e 07 00 01 85 00 00 09 01")), (3, 9),
         ""),  # the log tells five such in ten seconds
    )
    for what, data, code, words in rows:
        kind, body = peer.say(data)[-1]
        equal((kind, tuple(body[:2])), (3, code), f"{what}: the answer")
        speaker.wait(what, lambda status, words=words: words in speaker.log())
    equal(peer.say(opened, "127.0.0.9"), [], "what another address is told")
    speaker.wait("the refusal", lambda status: "it is not the peer" in speaker.log())

    # An attribute that is wrong takes the rule back, and the session goes on; rules that are wrong are passed over.
    with socket.create_connection(("127.0.0.1", peer.port), 10) as connection:
        connection.sendall(opened + alive + good)
        speaker.wait_for(1)
        equal(session.controlctl("test", "198.51.100.7")[0], 0, "a rule of a plain session")
        wrong = bytes.fromhex("0001 85 00 00 02 03 81 03 0e 81 06")
        connection.sendall(update(bytes((0x80, 14, len(wrong))) + wrong + drop + path))
        speaker.wait("the rules that are wrong", lambda status: status["refused"] == 2)
        check({reason.split(":")[0] for reason in speaker.refusals().values()} == {"malformed"}, speaker.refusals())
        connection.sendall(update(bytes((0x80, 14, len(reach))) + reach + drop))  # no AS_PATH
        speaker.wait("the rule to be withdrawn", lambda status: status["rules"] == 2 and not status["pending"])
        check("flowspec update malformed" in speaker.log() and "it has no AS_PATH" in speaker.log(), speaker.log())
        equal(speaker.status()["state"], "established", "state")
    speaker.wait("the session to end", lambda status: status["state"] == "waiting")
    equal(speaker.stop(), 0, "exit code")


def command_lines(session):
    socket_option = ("--as", "65000", "--peer", "127.0.0.1")
    for arguments, code, words in (
            (("--as", "65000"), 2, "--peer"), (("--peer", "127.0.0.1"), 2, "--as"), (("--as", "x", "--peer", "127.0.0.1"), 2, "AS number"),
            (("--as", "0", "--peer", "127.0.0.1"), 2, "AS number"), (("--as", "1", "--peer", "example.net"), 2, "--peer is `example.net`"),
            ((*socket_option, "--listen", "127.0.0.1:0"), 2, "--listen"), ((*socket_option, "--stale", "soon"), 2, "--stale"),
            ((*socket_option, "--router-id", "0.0.0.0"), 2, "--router-id"), ((*socket_option, "--hold", "2"), 2, "--hold"),
            (socket_option, 1, "several lists are dynamic"), ((*socket_option, "--list", "nobody"), 1, "no list nobody"),
            ((*socket_option, "--list", "files"), 1, "not dynamic"), ((*socket_option, "--list", "friends"), 1, "lets pass"),
            ((*socket_option, "--list", "rules", "--announce", "rules"), 1, "would send them back"),
            ((*socket_option, "--list", "rules", "--announce", "friends"), 1, "drops nothing")):
        found, out, err = session.controlctl("flowspec", *arguments)
        check(found == code and words in err, f"flowspec {' '.join(arguments)}: {found}: {out}{err}")
    session.stop("controld")
    equal(session.controlctl("flowspec", *socket_option)[0], 4, "without controld")


missing = [peer.program for peer in PEERS if peer.missing()]
if missing:
    skip(f"package: no {', '.join(missing)}")
for one in PEERS:
    with_peer(one)
with Session(BUILD) as shared:
    shared.start_controld(write(shared.folder, "flowspec.yaml", POLICY), targets=False)
    with_stale(shared)
    with_hostile(shared)
    command_lines(shared)
for one in PEERS:
    wrong, facts = measure(BUILD, one, rules=120, frames=3000)
    check(not wrong, f"{one.program}: {wrong[:5]}")
    print(f"{one.program}: {facts}")
