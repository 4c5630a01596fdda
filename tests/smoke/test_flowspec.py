"""`controlctl flowspec` between controld and the real ExaBGP and GoBGP. Announced rules are enforced, withdrawn ones are not, and rules
without an entry in weir are refused. Entries outlive a session for a while. weir announces its own drops; a hostile neighbour does no harm.
Random rules of both speakers do as RFC 8955 says."""

import ipaddress
import json
import os
import socket
import struct
import time

import pytest

from weir_smoke import BUILD, controlctl, needs_programs, write
from fleet_flowspec import Speaker, measure
from flowspec_peers import OURS, THEIRS, ExaBgp, GoBgp
from flowspec_rules import (DESTINATION, DPORT, EQUAL, FRAGMENT, INVERTED, LAST, LESS, MATCH, PORT, PROTOCOL, SOURCE, TCP, TCP_FLAGS,
                            UDP, Rule)
from namespaces import free_port

pytestmark = pytest.mark.slow

needs_exabgp = needs_programs("exabgp")
with_each_peer = pytest.mark.parametrize("peer_class", [pytest.param(ExaBgp, marks=needs_exabgp),
                                                        pytest.param(GoBgp, marks=needs_programs("gobgpd", "gobgp"))])

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
SAME = Rule(4, {DESTINATION: network("203.0.113.0/24"), PROTOCOL: [(False, EQUAL, TCP), (False, EQUAL, UDP)],
                DPORT: [(False, LESS, 1024)]})
V6 = Rule(6, {DESTINATION: network("2001:db8::/64"), SOURCE: network("2001:db8:1::/48")})
LATER = Rule(4, {DESTINATION: network("203.0.113.9/32"), FRAGMENT: [(False, MATCH, LAST)]})
SYN_ENTRY = "dst 192.0.2.7 tcp tcp-flags syn/syn,ack"
PACKETS = {  # packet -> the rules that drop it
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


@pytest.fixture
def lists(session, clock):
    """A session whose controld has the lists."""
    session.start_controld(write(session.folder, "flowspec.yaml", POLICY), targets=False)
    return session


def drops(session, *in_force):
    """Each packet is dropped exactly when one of these rules drops it."""
    for packet, rules in PACKETS.items():
        code, out, err = session.controlctl("test", packet)
        assert code in (0, 1), f"{packet}: {out}{err}"
        assert (code == 0) == bool(set(rules.split()) & set(in_force)), f"{packet}, with the rules {in_force}"


def entries(session, name="rules"):
    return {entry["entry"]: entry for entry in session.call("entries", name=name)["entries"]}


def with_end(session):
    """{entry: whether it ends}, without somebody's own."""
    return {text: "expires" in entry for text, entry in entries(session).items() if entry["comment"] != "mine"}


def wait_established(speaker):
    speaker.wait("a session", lambda status: status["state"] == "established")


def announced_rules_are_enforced(session, peer, speaker):
    peer.announce([NTP, SYN, LOW, SAME, V6, LATER])
    peer.announce([rule("192.0.2.77/32", UDP)], "rate-limit 10000")
    speaker.wait_for(7)
    drops(session, "NTP", "SYN", "LOW", "SAME", "V6")
    refusals = speaker.refusals()
    assert len(refusals) == 2, f"rules that are refused: {refusals}"
    assert "fragment" in refusals["dst 203.0.113.9/32 fragment =0x8"], refusals
    assert "traffic-rate 10000 bytes/s" in refusals["dst 192.0.2.77/32 proto 17"], refusals
    assert 'flowspec rule refused rule="dst 192.0.2.77/32 proto 17" peer=127.0.0.1' in speaker.log(), speaker.log()
    of_syn = entries(session)[SYN_ENTRY]
    assert of_syn["comment"].startswith("flowspec 127.0.0.1: dst 192.0.2.7/32 proto 6 tcp-flags ") and "expires" not in of_syn, of_syn


def an_entry_of_two_rules_stays_until_both_are_withdrawn(session, peer, speaker):
    peer.withdraw([LOW, SYN])
    speaker.wait_for(5)
    drops(session, "NTP", "SAME", "V6")
    peer.withdraw([SAME])
    speaker.wait_for(4)
    drops(session, "NTP", "V6")


def drops_of_weir_are_announced(session, peer):
    session.wait("the entry of the policy", lambda: len(peer.received()) == 2)  # as source and as destination
    controlctl(session, "add", "src 10.0.0.0/8 dst 203.0.113.9 proto tcp dport 8000-8010", "2001:db8::/48", "--list", "bans")
    session.wait("the added entries", lambda: len(peer.received()) == 5)
    text = json.dumps(sorted(peer.received()))
    for part in ("203.0.113.9/32", "10.0.0.0/8", "8010", "2001:db8::/48", "198.51.100.0/24"):
        assert part in text, f"{part} in {text}"
    controlctl(session, "del", "2001:db8::/48", "--list", "bans")
    session.wait("the deletion", lambda: len(peer.received()) == 3)


def entries_outlive_a_session(session, peer, speaker, clock):
    begin = time.time()
    peer.stop(kill=True)
    session.wait("entries to have an end", lambda: all(with_end(session).values()))
    drops(session, "NTP", "V6", "LOW")
    ends = [entry["expires"] for entry in entries(session).values() if "expires" in entry]
    assert all(begin + 599 <= end <= time.time() + 600 for end in ends), f"ends in {[end - begin for end in ends]} s, --stale is 10m"
    peer.start()
    wait_established(speaker)
    peer.announce([NTP, SYN])
    session.wait("the last of both", lambda: SYN_ENTRY in entries(session))
    clock.pass_time(31)  # a peer that does not say that its rules are complete, as GoBGP, counts as complete after 30 s of silence
    session.wait("the end of the rest", lambda: "dst 2001:db8::/64" not in str(entries(session)))
    session.wait("no ends", lambda: not any(with_end(session).values()))
    drops(session, "NTP", "SYN")
    assert "192.0.2.99" in entries(session), "somebody's own entry"
    session.wait("the announcements", lambda: len(peer.received()) >= 3)


@with_each_peer
def test_announced_rules_are_enforced_until_they_are_withdrawn(lists, clock, peer_class):
    with peer_class(lists.path("peer")) as peer:
        speaker = Speaker(lists, peer, "--list", "rules", "--announce", "bans", "--every", "1")
        wait_established(speaker)
        announced_rules_are_enforced(lists, peer, speaker)
        an_entry_of_two_rules_stays_until_both_are_withdrawn(lists, peer, speaker)
        controlctl(lists, "add", "192.0.2.99", "--list", "rules", "--comment", "mine")
        peer.announce([LOW])
        speaker.wait_for(5)
        drops_of_weir_are_announced(lists, peer)
        entries_outlive_a_session(lists, peer, speaker, clock)
        assert speaker.stop() == 0, "exit code"
        assert with_end(lists) and all(with_end(lists).values()), f"entries have an end when the program stops: {entries(lists)}"


@needs_exabgp
def test_entries_of_a_lost_session_end(lists, clock):
    with ExaBgp(lists.path("stale")) as peer:
        begin = int(time.time())
        speaker = Speaker(lists, peer, "--list", "strict", "--stale", "10m")
        wait_established(speaker)
        peer.announce([NTP, Rule(4, {PROTOCOL: [(False, EQUAL, 47)]})])  # a rule without an address is for all of them
        speaker.wait_for(2)
        assert "allow_any" in speaker.refusals()["proto 47"], speaker.refusals()
        ends = [entry["expires"] for entry in entries(lists, "strict").values()]
        assert ends and all(begin + 3600 <= end <= time.time() + 3600 for end in ends), "max_ttl of the list"
        peer.stop(kill=True)
        lists.wait("earlier ends", lambda: all(entry["expires"] < begin + 3600 for entry in entries(lists, "strict").values()))
        clock.pass_time(601)
        lists.wait("entries to end", lambda: not entries(lists, "strict"))
        speaker.wait("rules to be gone", lambda status: status["rules"] == 0)
        assert speaker.stop() == 0, "exit code"


def message(kind, body=b""):
    return MARKER + struct.pack(">HB", 19 + len(body), kind) + body


def receive(connection):
    """[(type, body)] of the messages that come until the other side closes."""
    data, messages = b"", []
    try:
        while part := connection.recv(65536):
            data += part
    except ConnectionError:
        pass
    while len(data) >= 19:
        length, kind = struct.unpack_from(">HB", data, 16)
        messages.append((kind, data[19:length]))
        data = data[length:]
    return messages


class Nobody:
    """The test is the peer; it connects to the speaker's port."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()

    def path(self, name):
        return os.path.join(self.folder, name)

    def options(self):
        return ["--peer", "127.0.0.1", "--listen", f"127.0.0.1:{self.port}", "--as", str(OURS), "--peer-as", str(THEIRS)]

    def log(self):
        return ""

    def connect(self, address="127.0.0.1"):
        return socket.create_connection(("127.0.0.1", self.port), 60, (address, 0))

    def say(self, data, address="127.0.0.1"):
        with self.connect(address) as connection:
            connection.sendall(data)
            return receive(connection)


FAMILY = bytes((2, 6, 1, 4, 0, 1, 0, 133))  # IPv4 FlowSpec
OPEN = message(1, struct.pack(">BHHIB", 4, THEIRS, 90, 7, 8) + FAMILY)
ALIVE = message(4)
REACH = bytes.fromhex("0001 85 00 00 05 01 18 c6 33 64")              # dst 198.51.100.0/24
WRONG_REACH = bytes.fromhex("0001 85 00 00 02 03 81 03 0e 81 06")     # two rules
DROP = bytes.fromhex("c0 10 08 80 06 00 00 00 00 00 00 40 01 01 00")  # and ORIGIN
PATH = bytes.fromhex("40 02 04 02 01") + struct.pack(">H", THEIRS)


def update(attributes):
    return message(2, b"\0\0" + struct.pack(">H", len(attributes)) + attributes)


def reach(body):
    return bytes((0x80, 14, len(body))) + body


@pytest.fixture
def speaker(lists):
    """Waits for its peer, which is the test: speaker.peer."""
    one = Speaker(lists, Nobody(lists.folder), "--list", "rules")
    one.wait("the program", lambda status: status["state"] == "waiting")
    return one


@pytest.mark.parametrize("data, code, line", [
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", (1, 1), "this is no BGP", id="no BGP"),
    pytest.param(message(1, struct.pack(">BHHIB", 4, 64999, 90, 7, 8) + FAMILY), (2, 2), "the peer is AS 64999", id="another AS"),
    pytest.param(message(1, struct.pack(">BHHIB", 4, THEIRS, 90, 7, 0)), (2, 7), "the peer carries no FlowSpec", id="no FlowSpec"),
    pytest.param(OPEN + OPEN, (5, 0), "at the wrong time", id="an OPEN twice"),
    pytest.param(OPEN + ALIVE + message(2, b"\0\x09\0\0"), (3, 1), "its lengths are wrong", id="wrong lengths"),
    pytest.param(OPEN + ALIVE + update(bytes.fromhex("80 0e 07 00 01 85 00 00 09 01")), (3, 9), "a rule of 9 bytes is longer",
                 id="a rule longer than its field"),
])
def test_a_breach_of_the_protocol_ends_the_session(speaker, data, code, line):
    kind, body = speaker.peer.say(data)[-1]
    assert (kind, tuple(body[:2])) == (3, code), "the last message is a NOTIFICATION"
    speaker.wait(f"a line: {line}", lambda _: line in speaker.log())


def test_another_address_is_not_the_peer(speaker):
    assert speaker.peer.say(OPEN, "127.0.0.9") == [], "messages to another address"
    speaker.wait("a line about it", lambda _: "it is not the peer" in speaker.log())


def test_a_wrong_attribute_withdraws_its_rule_alone(lists, speaker):
    with speaker.peer.connect() as connection:
        connection.sendall(OPEN + ALIVE + update(reach(REACH) + DROP + PATH))
        speaker.wait_for(1)
        assert lists.controlctl("test", "198.51.100.7")[0] == 0, "a rule of a good session"
        connection.sendall(update(reach(WRONG_REACH) + DROP + PATH))
        speaker.wait("the wrong rules", lambda status: status["refused"] == 2)
        assert {reason.split(":")[0] for reason in speaker.refusals().values()} == {"malformed"}, speaker.refusals()
        connection.sendall(update(reach(REACH) + DROP))  # no AS_PATH
        speaker.wait("the rule to be withdrawn", lambda status: status["rules"] == 2 and not status["pending"])
        assert "flowspec update malformed" in speaker.log() and "it has no AS_PATH" in speaker.log(), speaker.log()
        assert speaker.status()["state"] == "established", "state"
    speaker.wait("the session to end", lambda status: status["state"] == "waiting")
    assert speaker.stop() == 0, "exit code"


def test_wrong_command_lines_are_refused(lists):
    peer = ("--as", "65000", "--peer", "127.0.0.1")
    for arguments, code, words in (
            (("--as", "65000"), 2, "--peer"), (("--peer", "127.0.0.1"), 2, "--as"), (("--as", "x", "--peer", "127.0.0.1"), 2, "AS number"),
            (("--as", "0", "--peer", "127.0.0.1"), 2, "AS number"), (("--as", "1", "--peer", "example.net"), 2, "--peer is `example.net`"),
            ((*peer, "--listen", "127.0.0.1:0"), 2, "--listen"), ((*peer, "--stale", "soon"), 2, "--stale"),
            ((*peer, "--router-id", "0.0.0.0"), 2, "--router-id"), ((*peer, "--hold", "2"), 2, "--hold"),
            (peer, 1, "several lists are dynamic"), ((*peer, "--list", "nobody"), 1, "no list nobody"),
            ((*peer, "--list", "files"), 1, "not dynamic"), ((*peer, "--list", "friends"), 1, "lets pass"),
            ((*peer, "--list", "rules", "--announce", "rules"), 1, "would send them back"),
            ((*peer, "--list", "rules", "--announce", "friends"), 1, "drops nothing")):
        found, out, err = lists.controlctl("flowspec", *arguments)
        assert found == code and words in err, f"flowspec {' '.join(arguments)}: {found}: {out}{err}"
    lists.stop("controld")
    assert lists.controlctl("flowspec", *peer)[0] == 4, "without controld"


@with_each_peer
@pytest.mark.timeout(300)
def test_random_rules_do_as_rfc_8955_says(peer_class):
    wrong, facts = measure(BUILD, peer_class, rules=120, frames=3000)
    assert not wrong, f"{facts}: {wrong[:5]}"
