"""Rules of BGP FlowSpec and what they mean, straight from RFC 8955 and RFC 8956: random ones, their texts for ExaBGP and GoBGP, frames near them,
and which frames they match. Shares nothing with control/sources/flowspec, and reads frames by itself. Standard library only."""

import ipaddress
import struct
from dataclasses import dataclass, field

from samples import checksum

DESTINATION, SOURCE, PROTOCOL, PORT, DPORT, SPORT, ICMP_TYPE, ICMP_CODE, TCP_FLAGS, LENGTH, DSCP, FRAGMENT, LABEL = range(1, 14)
LESS, GREATER, EQUAL = 4, 2, 1     # of numbers
INVERTED, MATCH = 2, 1             # of bits
DONT, IS, FIRST, LAST = 1, 2, 4, 8  # bits of FRAGMENT
TCP, UDP, ICMP, ICMP6 = 6, 17, 1, 58
NUMBERS = {PROTOCOL: 255, PORT: 65535, DPORT: 65535, SPORT: 65535, ICMP_TYPE: 255, ICMP_CODE: 255, LENGTH: 65535, DSCP: 63}
SIGNS = {LESS: "<", GREATER: ">", EQUAL: "=", LESS | EQUAL: "<=", GREATER | EQUAL: ">=", LESS | GREATER: "!="}
BIT_SIGNS = {0: "", MATCH: "=", INVERTED: "!", INVERTED | MATCH: "!="}
FLAG_NAMES = ("fin", "syn", "rst", "push", "ack", "urg", "ece", "cwr")
FLAG_LETTERS = "FSRPAUEC"
FRAGMENT_NAMES = {DONT: "dont-fragment", IS: "is-fragment", FIRST: "first-fragment", LAST: "last-fragment"}


@dataclass
class Rule:
    family: int
    components: dict = field(default_factory=dict)  # type -> ip_network, or [(is_and, asks, value), ...]
    refused: str = ""  # a word of the reason for which weir has no entry for it

    def matches(self, packet):
        return packet is not None and packet["family"] == self.family and all(
            holds(kind, value, packet) for kind, value in self.components.items())


# --- what a rule means ---

def number_holds(operators, value):
    """RFC 8955, section 4.2.1.1."""
    return alternatives(operators, lambda asks, wanted: (asks & LESS and value < wanted) or (asks & GREATER and value > wanted) or
                        (asks & EQUAL and value == wanted))


def bits_hold(operators, bits):
    """RFC 8955, section 4.2.1.2."""
    def one(asks, wanted):
        plain = bits & wanted == wanted if asks & MATCH else bits & wanted != 0
        return plain != bool(asks & INVERTED)

    return alternatives(operators, one)


def alternatives(operators, one):
    found, so_far = False, True
    for number, (is_and, asks, wanted) in enumerate(operators):
        if number and not is_and:
            found, so_far = found or so_far, True
        so_far = bool(so_far and one(asks, wanted))
    return found or so_far


def holds(kind, value, packet):
    if kind in (DESTINATION, SOURCE):
        return ipaddress.ip_address(packet["destination" if kind == DESTINATION else "source"]) in value
    if kind == FRAGMENT:
        return bits_hold(value, packet["fragment"])
    if kind == TCP_FLAGS:
        return packet["flags"] is not None and bits_hold(value, packet["flags"])
    if kind == PORT:
        return packet["ports"] is not None and any(number_holds(value, port) for port in packet["ports"])
    if kind in (SPORT, DPORT):
        return packet["ports"] is not None and number_holds(value, packet["ports"][kind == DPORT])
    if kind in (ICMP_TYPE, ICMP_CODE):
        return packet["icmp"] is not None and number_holds(value, packet["icmp"][kind == ICMP_CODE])
    return number_holds(value, packet[{PROTOCOL: "protocol", LENGTH: "length", DSCP: "dscp"}[kind]])


def read_frame(frame):
    """The packet of an Ethernet frame that make_frame() wrote, as rules see it; None: it is no IP."""
    ethertype, = struct.unpack_from(">H", frame, 12)
    head = frame[14:]
    packet = {"ports": None, "icmp": None, "flags": None}
    if ethertype == 0x0800:
        total, flags = struct.unpack_from(">H", head, 2)[0], struct.unpack_from(">H", head, 6)[0]
        offset, more = flags & 0x1fff, flags & 0x2000
        packet.update(family=4, length=total, dscp=head[1] >> 2, protocol=head[9], source=head[12:16], destination=head[16:20])
        bits = DONT if flags & 0x4000 else 0
        data, icmp = head[4 * (head[0] & 15):total], ICMP
    elif ethertype == 0x86dd:
        traffic_class = (head[0] & 15) << 4 | head[1] >> 4
        total = 40 + struct.unpack_from(">H", head, 4)[0]
        packet.update(family=6, length=total, dscp=traffic_class >> 2, protocol=head[6], source=head[8:24], destination=head[24:40])
        data, icmp, bits, offset, more = head[40:total], ICMP6, 0, 0, 0
        if head[6] == 44:
            packet["protocol"] = data[0]
            word, = struct.unpack_from(">H", data, 2)
            offset, more, data = word >> 3, word & 1, data[8:]
    else:
        return None
    bits |= IS if offset else FIRST if more else 0
    if offset and not more:
        bits |= LAST
    packet["fragment"] = bits
    if not offset:
        if packet["protocol"] in (TCP, UDP) and len(data) >= 4:
            packet["ports"] = struct.unpack_from(">HH", data)
        if packet["protocol"] == TCP and len(data) >= 14:
            packet["flags"] = (data[12] & 15) << 8 | data[13]
        if packet["protocol"] == icmp and len(data) >= 2:
            packet["icmp"] = data[0], data[1]
    return packet


# --- random ones ---

def random_rules(random, count):
    """Different ones. Most name an address, as rules do; some, with `refused`, ask for what weir does not look at."""
    seen, rules = set(), []
    while len(rules) < count:
        rule = random_rule(random)
        text = exabgp(rule)
        if text not in seen:
            seen.add(text)
            rules.append(rule)
    return rules


def random_network(random, family, near=0.5):
    # Half of them of a few places, so that rules meet; few are wide, or hardly a frame would pass.
    is_near, is_wide = random.random() < near, random.random() < 0.01
    if family == 4:
        base = 10 << 24 | (random.randrange(64) << 10 | random.getrandbits(6) if is_near else random.getrandbits(24))
        return ipaddress.ip_network((base, 12 if is_wide else random.choice((22, 24, 24, 27, 31, 32, 32, 32))), strict=False)
    base = 0x20010db8 << 96 | random.randrange(64 if is_near else 1 << 16) << 80 | random.getrandbits(6 if is_near else 80)
    return ipaddress.ip_network((base, 32 if is_wide else random.choice((48, 56, 64, 64, 127, 128, 128))), strict=False)


def random_numbers(random, most, common, few=False):
    """Operators, 1 to 4 of them. few: that few numbers hold for."""
    def value():
        return random.choice(common) if random.random() < 0.6 else random.randint(1, most)

    kind = random.random()
    if few or kind < 0.45:
        return [(False, EQUAL, value()) for _ in range(random.choice((1, 1, 2, 3)))]
    if kind < 0.65:
        first, last = sorted((value(), value()))
        between = [(False, GREATER | EQUAL, first), (True, LESS | EQUAL, last)]
        return between + ([(False, EQUAL, value())] if random.random() < 0.4 else [])
    if kind < 0.75:
        return [(False, LESS, max(2, value()))]
    if kind < 0.85:
        return [(False, GREATER, min(most - 1, value()))]
    if kind < 0.92:
        return [(False, LESS | GREATER, value())] + ([(True, LESS | GREATER, value())] if random.random() < 0.5 else [])
    return [(False, LESS | EQUAL, value()), (False, GREATER | EQUAL, value())]


def random_rule(random):
    family = 4 if random.random() < 0.65 else 6
    rule = Rule(family)
    parts = rule.components
    has_address = random.random() < 0.985
    if has_address and random.random() < 0.85:
        parts[DESTINATION] = random_network(random, family)
    if has_address and (DESTINATION not in parts or random.random() < 0.3):
        parts[SOURCE] = random_network(random, family)
    icmp = ICMP if family == 4 else ICMP6
    ports, lengths = (53, 80, 123, 443, 1900, 8080, 11211), (40, 64, 128, 512, 1400)
    kind = random.choice(("none", "protocol", "ports", "ports", "ports", "icmp", "flags"))
    if not has_address:
        kind = "pair"
    if not has_address and family == 6:  # ExaBGP tells the family by the addresses
        parts[DESTINATION] = ipaddress.ip_network("::/0")
    if kind == "protocol":
        parts[PROTOCOL] = random_numbers(random, 255, (TCP, UDP, icmp, 47, 50), few=True)
    elif kind == "ports":
        if random.random() < 0.7:
            parts[PROTOCOL] = [(False, EQUAL, value) for value in random.choice(((TCP,), (UDP,), (UDP,), (TCP, UDP)))]
        for part in random.choice(((PORT,), (DPORT,), (SPORT,), (SPORT, DPORT), (PORT, DPORT))):
            parts[part] = random_numbers(random, 65535, ports)
    elif kind == "pair":
        parts.update({SPORT: random_numbers(random, 65535, ports, few=True), DPORT: random_numbers(random, 65535, ports, few=True)})
    elif kind == "icmp":
        if random.random() < 0.5:
            parts[PROTOCOL] = [(False, EQUAL, icmp)]
        parts[ICMP_TYPE] = random_numbers(random, 255, (0, 3, 8, 11, 128, 129), few=True)
        if random.random() < 0.4:
            parts[ICMP_CODE] = random_numbers(random, 255, (0, 1, 2, 3), few=True)
    elif kind == "flags":
        if random.random() < 0.6:
            parts[PROTOCOL] = [(False, EQUAL, TCP)]
        parts[TCP_FLAGS] = [(bool(number) and random.random() < 0.6, random.choice((MATCH, MATCH, 0, INVERTED, INVERTED | MATCH)),
                             sum({1 << random.choice((0, 1, 2, 3, 4, 4, 1)) for _ in range(random.choice((1, 1, 2)))}))
                            for number in range(random.choice((1, 1, 2, 3)))]
    if random.random() < 0.2:
        parts[LENGTH] = random_numbers(random, 1500, lengths)
    if random.random() < 0.15 and (family == 4 or random.random() < 0.5):
        parts[DSCP] = random_numbers(random, 63, (0, 10, 46))
    if random.random() < 0.15 and family == 4:
        value, rule.refused = random.choice((
            ([(False, 0, IS)], ""), ([(False, MATCH, IS)], ""), ([(False, MATCH, FIRST)], ""), ([(False, 0, IS | FIRST)], ""),
            ([(False, MATCH, IS), (False, MATCH, FIRST)], ""), ([(False, INVERTED, IS), (True, INVERTED, FIRST)], ""),
            ([(False, INVERTED, IS)], ""), ([(False, MATCH, LAST)], "fragment"), ([(False, MATCH, DONT)], "fragment")))
        parts[FRAGMENT] = value
    return rule


# --- their texts ---

def numbers_text(operators, equal, joined=" "):
    text = ""
    for number, (is_and, asks, value) in enumerate(operators):
        text += ("&" if is_and else joined if number else "") + (equal if asks == EQUAL else SIGNS[asks]) + str(value)
    return text


def exabgp(rule):
    """As ExaBGP's API takes it, behind `announce flow route` and `withdraw flow route`; without what is to be done."""
    names = {DESTINATION: "destination", SOURCE: "source", PROTOCOL: "protocol" if rule.family == 4 else "next-header", PORT: "port",
             DPORT: "destination-port", SPORT: "source-port", ICMP_TYPE: "icmp-type", ICMP_CODE: "icmp-code", TCP_FLAGS: "tcp-flags",
             LENGTH: "packet-length", DSCP: "dscp" if rule.family == 4 else "traffic-class", FRAGMENT: "fragment"}
    words = []
    for kind in sorted(rule.components):
        value = rule.components[kind]
        if kind in (DESTINATION, SOURCE):
            words.append(f"{names[kind]} {value}")
            continue
        if kind in (TCP_FLAGS, FRAGMENT):
            text = bits_text(value, lambda bits, of=kind: "+".join(bit_names(of, bits)))
        else:
            text = numbers_text(value, "=")
        words.append(f"{names[kind]} [ {text} ]")
    return " ".join(words)


def bit_names(kind, bits):
    if kind == FRAGMENT:
        return [name for bit, name in FRAGMENT_NAMES.items() if bits & bit]
    return [FLAG_NAMES[bit] for bit in range(8) if bits >> bit & 1]


def bits_text(operators, name):
    text = ""
    for number, (is_and, asks, value) in enumerate(operators):
        text += ("&" if is_and else " " if number else "") + BIT_SIGNS[asks] + name(value)
    return text


def gobgp(rule):
    """Arguments of `gobgp global rib add -a ... match`; without what is to be done."""
    names = {DESTINATION: "destination", SOURCE: "source", PROTOCOL: "protocol", PORT: "port", DPORT: "destination-port",
             SPORT: "source-port", ICMP_TYPE: "icmp-type", ICMP_CODE: "icmp-code", TCP_FLAGS: "tcp-flags", LENGTH: "packet-length",
             DSCP: "dscp", FRAGMENT: "fragment"}
    words = []
    for kind in sorted(rule.components):
        value = rule.components[kind]
        words.append(names[kind])
        if kind in (DESTINATION, SOURCE):
            words.append(str(value))
        elif kind == TCP_FLAGS:
            words.append(bits_text(value, lambda bits: "".join(FLAG_LETTERS[bit] for bit in range(8) if bits >> bit & 1)))
        elif kind == FRAGMENT:
            words.append(bits_text(value, lambda bits: "+".join(bit_names(FRAGMENT, bits))))
        else:
            words.append(numbers_text(value, "=="))
    return words


# --- frames near them ---

def some_number(random, operators, most):
    """One that the operators take, mostly; or one beside theirs."""
    wanted = [value + step for _, _, value in operators for step in (-1, 0, 0, 1)] + [random.randint(0, most)]
    wanted = [value for value in wanted if 0 <= value <= most]
    right = [value for value in wanted if number_holds(operators, value)]
    return random.choice(right if right and random.random() < 0.8 else wanted)


def frame_near(random, rule):
    """A frame that the rule matches, or that it nearly does."""
    parts = rule.components
    icmp = ICMP if rule.family == 4 else ICMP6

    def address(kind):
        network = parts.get(kind)
        if network is None or random.random() < 0.05:
            network = random_network(random, rule.family)
        return network[random.randrange(network.num_addresses)].packed

    if PROTOCOL in parts:
        protocol = some_number(random, parts[PROTOCOL], 255)
    elif TCP_FLAGS in parts:
        protocol = TCP
    elif ICMP_TYPE in parts or ICMP_CODE in parts:
        protocol = icmp
    else:
        protocol = random.choice((TCP, UDP, UDP, icmp, 132))
    if protocol in (0, 41, 43, 44, 51, 59, 60, 135, 139, 140):  # IPv6's headers, tunnels
        protocol = 253

    def port(own):
        for kind in random.sample((own, PORT), 2):
            if kind in parts:
                return some_number(random, parts[kind], 65535)
        return random.choice((0, 53, 80, 443, random.randrange(65536)))

    sport, dport = port(SPORT), port(DPORT)
    fragment = random.choice((0, 0, 0, 0, FIRST, IS, IS | LAST)) if FRAGMENT not in parts else random.choice((0, FIRST, IS, IS | LAST))
    icmp_type, icmp_code = (some_number(random, parts[kind], 255) if kind in parts else random.randrange(4)
                            for kind in (ICMP_TYPE, ICMP_CODE))
    if protocol == TCP:
        payload = struct.pack(">HHIIBBHHH", sport, dport, 1, 1, 5 << 4, random_flags(random, parts.get(TCP_FLAGS)), 1000, 0, 0)
    elif protocol in (UDP, 132):
        payload = struct.pack(">HHHH", sport, dport, 8, 0)
    else:
        payload = bytes((icmp_type, icmp_code, 0, 0, 0, 0, 0, 0))
    head = 20 if rule.family == 4 else 48 if fragment else 40
    wanted = some_number(random, parts[LENGTH], 1500) if LENGTH in parts else head + len(payload) + random.randrange(40)
    payload += bytes(max(0, min(wanted, 1500) - head - len(payload)))
    dscp = some_number(random, parts[DSCP], 63) if DSCP in parts else random.choice((0, 0, 10, 46))
    return make_frame(rule.family, address(SOURCE), address(DESTINATION), protocol, payload, dscp, fragment,
                      dont=not fragment and random.random() < 0.3)


def random_flags(random, operators):
    right = [bits for bits in range(256) if operators is None or bits_hold(operators, bits)]
    return random.choice(right) if right and random.random() < 0.7 else random.randrange(256)


def make_frame(family, source, destination, protocol, payload, dscp=0, fragment=0, dont=False):
    offset, more = (185 if fragment & IS else 0), bool(fragment) and not fragment & LAST
    if family == 4:
        word = (0x4000 if dont else 0) | (0x2000 if more else 0) | offset
        head = struct.pack(">BBHHHBBH4s4s", 0x45, dscp << 2, 20 + len(payload), 1, word, 64, protocol, 0, source, destination)
        head = head[:10] + struct.pack(">H", checksum(head)) + head[12:]
    else:
        if fragment:
            payload = struct.pack(">BBHI", protocol, 0, offset << 3 | more, 1) + payload
            protocol = 44
        head = struct.pack(">IHBB16s16s", 6 << 28 | dscp << 22, len(payload), protocol, 64, source, destination)
    return b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02" + struct.pack(">H", 0x0800 if family == 4 else 0x86dd) + head + payload
