"""The tables of send_expect.py: every encapsulation and every kind of entry. A row of the test is one of
either; what it expects follows from them and from frames.seen()."""

from frames import (ACK, AH, DCCP, ECE, ESP, FIN, HIP, HOP_BY_HOP, ICMP, ICMP6, MOBILITY, NO_NEXT,
                    OPTIONS, PSH, ROUTING, RST, SCTP, SHIM6, SYN, TCP, UDP, UDP_LITE, URG, V4, V6, Data, Ethernet,
                    Extension, Fragment, Geneve, Gre, Gtpu, Icmp, Mpls, Opaque, Pppoe, Teredo, Vlan, Vxlan, WithPorts, number_of,
                    udp)

GROUPS = ("address", "port", "flow", "icmp", "flags", "header", "expires", "lists", "tunnel")
BUILT = GROUPS  # those that the programs can do; the others they refuse

NOW = 1782864000                 # 2026-07-01T00:00:00Z, what --now says
SECOND_BEFORE, AT_NOW, SECOND_AFTER = "2026-06-30T23:59:59Z", "2026-07-01T00:00:00Z", "2026-07-01T00:00:01Z"
LATER = "2036-01-01T00:00:00Z"

INNOCENT = {4: (number_of("192.0.2.1"), number_of("192.0.2.2")),
            6: (number_of("2001:db8:ffff::1"), number_of("2001:db8:ffff::2"))}
BLOCK = {4: (number_of("10.0.0.0"), 16), 6: (number_of("2001:db8::"), 80)}  # block k begins at base + (k << bits)

OWN, OWN_ADDRESS = "own", 10  # the kind that is `policy.own`, and its address in the block


class Kind:
    """One kind of entry, which is one list.

    entry: its text; @N is address N of the kind's block, @N!P that address with port P. match, action, mode: of the
    list. hits: fields of packets that match; what a hit names must be there for the entry to match, whatever else the
    packet is (or, for Between and Among, must lie there). carrier: a protocol that the entry does not ask for, data:
    bytes behind the transport header; these two are not compared. misses: fields of packets that do not. src and dst
    are numbers in the block; left out, they are innocent.
    Values that depend on the family are {4: V, 6: V}.
    """

    def __init__(self, group, name, entry, hits, misses, match="src", action="drop", mode="enforce", families=(4, 6),
                 after_wide=False, anywhere=False):
        self.group, self.name, self.entry, self.hits, self.misses = group, name, entry, hits, misses
        self.match, self.action, self.mode, self.families, self.after_wide = match, action, mode, families, after_wide
        self.anywhere = anywhere  # names no address: hits in the other family, too


class Between:
    """What the encapsulation has a say in, too: a packet hits when its value lies here."""

    def __init__(self, first, last):
        self.first, self.last = first, last

    def holds(self, value):
        return self.first <= value <= self.last


class Among(Between):
    def __init__(self, *values):
        self.values = values

    def holds(self, value):
        return value in self.values


def both(v4, v6):
    return {4: v4, 6: v6}


ECHO = dict(icmp_type=both(8, 128))
ECHO_NAME = both("icmp", "icmpv6")
ECHO_NUMBER = both(ICMP, ICMP6)
SYN_ENTRY = "{dst: '@10', proto: tcp, tcp_flags: {set: [syn], mask: [syn, ack]}}"
PORT_HIT = dict(dst=10, dport=443)
# Neighbours of an address and port: another port, the other side, the address of another, protocols without ports.
PORT_MISSES = [dict(dst=10, dport=442), dict(dst=10, dport=444), dict(dst=11, dport=443), dict(dst=10, sport=443),
               dict(src=10, dport=443), dict(dst=10, proto=ECHO_NUMBER), dict(dst=10, proto=ESP)]
FLOW_MISSES = [dict(src=10), dict(dst=20), dict(src=20, dst=10), dict(src=11, dst=20), dict(src=10, dst=19)]
FIVE = dict(src=10, dst=20, proto=UDP, sport=5000, dport=53)
CORNER = dict(src=13, dst=29, proto=TCP, sport=65535, dport=443)
FIVE_ENTRY = "{src: '@10', dst: '@20', proto: udp, sport: 5000, dport: 53}"
FIVE_MISSES = [{**FIVE, **other} for other in
               (dict(proto=TCP), dict(sport=5001), dict(dport=54), dict(src=9), dict(dst=21),
                dict(src=20, dst=10, sport=53, dport=5000))]


def with_data(*sizes, **fields):
    return [dict(data=size, **fields) for size in sizes]


# UDP: 28 bytes and the data with IPv4, 48 with IPv6.
LENGTH_RANGE = dict(src=10, carrier=UDP, length=both(Between(40, 60), Between(60, 80)))
LENGTH_OPEN = dict(dst=10, proto=UDP, dport=53, length=both(Between(200, 1 << 32), Between(220, 1 << 32)))
DSCP_LIST = "{dst: '@10', dscp: [1, 10-14, 63]}"


def expiring(when):
    return f"{{entry: '@10', expires: {when}}}"


KINDS = (
    # addresses
    Kind("address", "src", "'@10'", [dict(src=10)], [dict(src=9), dict(src=11), dict(dst=10)]),
    Kind("address", "dst", "'@10'", [dict(dst=10)], [dict(dst=9), dict(dst=11), dict(src=10)], match="dst"),
    Kind("address", "either", "'@10'", [dict(src=10), dict(dst=10)], [dict(src=9, dst=11)], match="either"),
    Kind("address", "named-src", "{src: '@10'}", [dict(src=10)], [dict(src=11), dict(dst=10)], match="dst"),
    Kind("address", "named-dst", "{dst: '@10'}", [dict(dst=10)], [dict(dst=11), dict(src=10)]),
    Kind("address", "prefix-wide", both("'@0/20'", "'@0/56'"),
         [dict(src=0), dict(src=both((1 << 12) - 1, (1 << 72) - 1))],
         [dict(src=both(1 << 12, 1 << 72)), dict(dst=0)]),
    Kind("address", "prefix-narrow", both("'@32/27'", "'@32/123'"), [dict(dst=63), dict(src=32)],
         [dict(dst=64), dict(dst=31), dict(src=64, dst=31)], match="either"),
    Kind("address", "range", "'@10-@99'", [dict(src=99), dict(src=10), dict(src=64)],
         [dict(src=9), dict(src=100), dict(dst=50)]),
    Kind("address", "range-carry", both("'@250-@520'", "'@18446744073709551611-@18446744073709551700'"),
         [dict(dst=both(520, (1 << 64) + 84)), dict(dst=both(250, (1 << 64) - 5)), dict(dst=both(256, 1 << 64))],
         [dict(dst=both(249, (1 << 64) - 6)), dict(dst=both(521, (1 << 64) + 85)), dict(src=both(300, 1 << 64))],
         match="dst"),
    # address and port
    Kind("port", "port-dst", "'@10!443'", [PORT_HIT], PORT_MISSES, match="dst"),
    Kind("port", "port-src", "'@10!53'", [dict(src=10, sport=53)],
         [dict(src=10, sport=54), dict(src=10, dport=53), dict(src=11, sport=53), dict(dst=10, sport=53),
          dict(src=10, proto=ECHO_NUMBER)]),
    Kind("port", "port-either", "'@10!8443'", [dict(dst=10, dport=8443), dict(src=10, sport=8443)],
         [dict(src=10, dport=8443), dict(dst=10, sport=8443), dict(src=10, dst=10, sport=1, dport=2)], match="either"),
    Kind("port", "port-named", "{dst: '@10', dport: 443}", [PORT_HIT], PORT_MISSES),
    Kind("port", "port-highest", "'@10!65535'", [dict(dst=10, dport=65535)],
         [dict(dst=10, dport=65534), dict(dst=10, dport=1), dict(dst=10, sport=65535)], match="dst"),
    # flows
    Kind("flow", "pair", "{src: '@10', dst: '@20'}", [dict(src=10, dst=20)], FLOW_MISSES),
    Kind("flow", "pair-of-prefixes", both("{src: '@0/28', dst: '@256/24'}", "{src: '@0/124', dst: '@256/120'}"),
         [dict(src=15, dst=256), dict(src=0, dst=511)],
         [dict(src=16, dst=256), dict(src=15, dst=255), dict(src=15, dst=512), dict(src=256, dst=15)]),
    Kind("flow", "pair-range-dst", "{src: '@10', dst: '@30-@77'}", [dict(src=10, dst=77), dict(src=10, dst=30)],
         [dict(src=10, dst=29), dict(src=10, dst=78), dict(src=11, dst=50)]),
    Kind("flow", "proto", "{dst: '@10', proto: tcp}", [dict(dst=10, proto=TCP)],
         [dict(dst=10, proto=UDP), dict(dst=10, proto=ECHO_NUMBER), dict(dst=11, proto=TCP), dict(src=10, proto=TCP)]),
    Kind("flow", "proto-sctp-src", "{src: '@10', proto: sctp}", [dict(src=10, proto=SCTP)],
         [dict(src=10, proto=UDP_LITE), dict(dst=10, proto=SCTP), dict(src=10, proto=DCCP)]),
    Kind("flow", "sport", "{src: '@10', sport: 123}", [dict(src=10, sport=123)],
         [dict(src=10, sport=122), dict(src=10, dport=123), dict(src=10, proto=ECHO_NUMBER)]),
    Kind("flow", "sport-range", "{src: '@10', proto: udp, sport: 1000-1999}",
         [dict(src=10, proto=UDP, sport=1999), dict(src=10, proto=UDP, sport=1000)],
         [dict(src=10, proto=UDP, sport=999), dict(src=10, proto=UDP, sport=2000),
          dict(src=10, proto=TCP, sport=1500)]),
    Kind("flow", "dport", "{dst: '@10', proto: tcp, dport: 8080}", [dict(dst=10, proto=TCP, dport=8080)],
         [dict(dst=10, proto=TCP, dport=8081), dict(dst=10, proto=UDP, dport=8080),
          dict(dst=10, proto=TCP, sport=8080)]),
    Kind("flow", "dport-range", both("{src: '@0/28', dst: '@99', proto: tcp, dport: 8000-8010}",
                                     "{src: '@0/124', dst: '@99', proto: tcp, dport: 8000-8010}"),
         [dict(src=15, dst=99, proto=TCP, dport=8010), dict(src=0, dst=99, proto=TCP, dport=8000)],
         [dict(src=15, dst=99, proto=TCP, dport=8011), dict(src=15, dst=99, proto=TCP, dport=7999),
          dict(src=16, dst=99, proto=TCP, dport=8005), dict(src=15, dst=98, proto=TCP, dport=8005),
          dict(src=15, dst=99, proto=UDP, dport=8005)]),
    Kind("flow", "prefix-port", both("{dst: '@0/24', dport: 25}", "{dst: '@0/120', dport: 25}"),
         [dict(dst=0, dport=25), dict(dst=255, dport=25)],
         [dict(dst=256, dport=25), dict(dst=7, dport=26), dict(dst=7, sport=25)]),
    Kind("flow", "anywhere-dport", "{proto: udp, dport: 7777}", [dict(proto=UDP, dport=7777)],
         [dict(proto=TCP, dport=7777), dict(proto=UDP, dport=7778), dict(proto=UDP, sport=7777)], families=(4,),
         anywhere=True),
    Kind("flow", "anywhere-sport", "{sport: 7700-7709}", [dict(sport=7709), dict(sport=7700)],
         [dict(sport=7710), dict(sport=7699), dict(dport=7705)], families=(6,), anywhere=True),
    Kind("flow", "five", FIVE_ENTRY, [FIVE], FIVE_MISSES),
    Kind("flow", "five-ranges", "{src: '@10-@13', dst: '@20-@29', proto: tcp, sport: 1024-65535, dport: 80-443}",
         [CORNER, dict(src=10, dst=20, proto=TCP, sport=1024, dport=80)],
         [{**CORNER, **other} for other in (dict(src=14), dict(dst=30), dict(sport=1023), dict(dport=444),
                                            dict(dport=79), dict(proto=SCTP))]),
    # ICMP
    Kind("icmp", "icmp-type", both("{dst: '@10', proto: icmp, icmp: {type: 8}}",
                                   "{dst: '@10', proto: icmpv6, icmp: {type: 128}}"),
         [dict(dst=10, proto=ECHO_NUMBER, **ECHO), dict(dst=10, proto=ECHO_NUMBER, icmp_type=both(8, 128), icmp_code=both(200, 255))],
         [dict(dst=10, proto=ECHO_NUMBER, icmp_type=both(0, 129), icmp_code=both(8, 0)), dict(dst=11, proto=ECHO_NUMBER, **ECHO),
          dict(src=10, proto=ECHO_NUMBER, **ECHO), dict(dst=10, proto=TCP, sport=both(0x0800, 0x8000), dport=0)]),
    Kind("icmp", "icmp-code", both("{src: '@10', proto: icmp, icmp: {type: 3, code: 4}}",
                                   "{src: '@10', proto: icmpv6, icmp: {type: 1, code: 4}}"),
         [dict(src=10, proto=ECHO_NUMBER, icmp_type=both(3, 1), icmp_code=both(4, 4))],
         [dict(src=10, proto=ECHO_NUMBER, icmp_type=both(3, 1), icmp_code=both(3, 3)),
          dict(src=10, proto=ECHO_NUMBER, icmp_type=both(4, 2), icmp_code=both(4, 4)),
          dict(src=10, proto=UDP, sport=both(0x0304, 0x0104), dport=0)]),
    Kind("icmp", "icmp-zero", both("{dst: '@10', proto: icmp, icmp: {type: 0, code: 0}}",
                                   "{dst: '@10', proto: icmpv6, icmp: {type: 0, code: 0}}"),
         [dict(dst=10, proto=ECHO_NUMBER, icmp_type=0, icmp_code=0)],
         [dict(dst=10, proto=ECHO_NUMBER, icmp_type=0, icmp_code=1), dict(dst=10, proto=ECHO_NUMBER, icmp_type=1, icmp_code=0)]),
    # TCP flags
    Kind("flags", "flags-syn", SYN_ENTRY,
         [dict(dst=10, proto=TCP, flags=SYN), dict(dst=10, proto=TCP, flags=SYN | ECE | URG)],
         [dict(dst=10, proto=TCP, flags=SYN | ACK), dict(dst=10, proto=TCP, flags=ACK),
          dict(dst=10, proto=TCP, flags=0),
          dict(dst=11, proto=TCP, flags=SYN), dict(dst=10, proto=UDP)]),
    Kind("flags", "flags-null", "{src: '@10', proto: tcp, tcp_flags: {set: [], mask: [fin, syn, rst, psh, ack, urg]}}",
         [dict(src=10, proto=TCP, flags=0), dict(src=10, proto=TCP, flags=ECE)],
         [dict(src=10, proto=TCP, flags=flag) for flag in (FIN, SYN, RST, PSH, ACK, URG)]),
    Kind("flags", "flags-port", "{dst: '@10', proto: tcp, dport: 80, tcp_flags: {set: [rst], mask: [rst]}}",
         [dict(dst=10, proto=TCP, dport=80, flags=RST), dict(dst=10, proto=TCP, dport=80, flags=RST | ACK)],
         [dict(dst=10, proto=TCP, dport=80, flags=ACK), dict(dst=10, proto=TCP, dport=81, flags=RST)]),
    # IP headers
    Kind("header", "length", both("{src: '@10', length: 32}", "{src: '@10', length: 52}"),
         with_data(4, 3, 5, src=10, carrier=UDP, length=both(Among(32), Among(52))), [dict(src=11, carrier=UDP)]),
    Kind("header", "length-range", both("{src: '@10', length: 40-60}", "{src: '@10', length: 60-80}"),
         with_data(12, 11, 32, 33, **LENGTH_RANGE), [dict(src=9, carrier=UDP, data=20)]),
    Kind("header", "length-open", both("{dst: '@10', proto: udp, dport: 53, length: 200-}",
                                       "{dst: '@10', proto: udp, dport: 53, length: 220-}"),
         with_data(172, 171, 1200, **LENGTH_OPEN), [dict(dst=10, proto=UDP, dport=54, data=172)]),
    Kind("header", "dscp", "{src: '@10', dscp: 46}", [dict(src=10, dscp=46)],
         [dict(src=10, dscp=45), dict(src=10, dscp=47), dict(src=10, dscp=23), dict(src=10, dscp=0),
          dict(src=11, dscp=46), dict(dst=10, dscp=46)]),
    Kind("header", "dscp-list", DSCP_LIST, [dict(dst=10, dscp=value) for value in (63, 1, 10, 12, 14)],
         [dict(dst=10, dscp=value) for value in (0, 2, 9, 15, 62)]),
    Kind("header", "anywhere-dscp", "{dscp: 61}", [dict(dscp=61)], [dict(dscp=60), dict(dscp=62)], families=(4,),
         anywhere=True),
    Kind("header", "fragment-none", "{src: '@10', fragment: none}", [dict(src=10, fragment=Among("none"))],
         [dict(src=11)]),
    Kind("header", "fragment-first", "{src: '@10', fragment: first}", [dict(src=10, fragment=Among("first"))],
         [dict(src=11)]),
    Kind("header", "fragment-later", "{src: '@10', fragment: later}", [dict(src=10, fragment=Among("later"))],
         [dict(dst=10)]),
    Kind("header", "fragment-any", "{dst: '@10', fragment: any}", [dict(dst=10, fragment=Among("first", "later"))],
         [dict(src=10)]),
    Kind("header", "fragment-port", "{dst: '@10', proto: udp, dport: 53, fragment: first}",
         [dict(dst=10, proto=UDP, dport=53, fragment=Among("first"))], [dict(dst=10, proto=UDP, dport=54)]),
    # expiry
    Kind("expires", "live", expiring(LATER), [dict(src=10)], [dict(src=11), dict(dst=10)]),
    Kind("expires", "live-a-second", expiring(SECOND_AFTER), [dict(src=10)], [dict(src=11)]),
    Kind("expires", "expires-now", expiring(AT_NOW), [], [dict(src=10), dict(src=11)]),
    Kind("expires", "expired", expiring(SECOND_BEFORE), [], [dict(src=10), dict(src=11)]),
    Kind("expires", "flow-live", "{src: '@10', dst: '@20', proto: tcp, expires: " + SECOND_AFTER + "}",
         [dict(src=10, dst=20, proto=TCP)], [dict(src=10, dst=20, proto=UDP), dict(src=10, dst=21, proto=TCP)]),
    Kind("expires", "flow-expired", "{src: '@10', dst: '@20', expires: " + SECOND_BEFORE + "}", [],
         [dict(src=10, dst=20)]),
    Kind("expires", "pass-expired", expiring(SECOND_BEFORE), [], [dict(src=10), dict(src=11)], action="pass"),
    # lists beside each other: the whole block of each of these is in the list `wide` too, by either side
    Kind("lists", "pass", "'@10'", [dict(src=10)], [dict(src=11), dict(dst=10)], action="pass"),
    Kind("lists", "pass-port", "'@10!443'", [PORT_HIT], [dict(dst=10, dport=444), dict(dst=11, dport=443)],
         match="dst", action="pass", after_wide=True),
    # no list, but `policy.own`: cut out of the list `wide`
    Kind("lists", OWN, f"'@{OWN_ADDRESS}'", [dict(src=10), dict(dst=10)], [dict(src=11), dict(dst=9)]),
    Kind("lists", "monitor", "'@10'", [dict(src=10)], [dict(src=11)], mode="monitor"),
    Kind("lists", "drop-first", "'@10-@40'", [dict(dst=33)], [dict(dst=41), dict(src=33)], match="dst"),
    Kind("lists", "drop-second", "'@10-@40'", [dict(dst=33)], [dict(dst=41), dict(src=33)], match="dst",
         after_wide=True),
)


def in_wide(kind):
    return kind.group == "lists" or kind.action == "pass"


class Packet:
    """What a row wants to send, for an encapsulation to wrap up."""

    def __init__(self, family, src, dst, carried, dscp=0):
        self.family, self.src, self.dst, self.carried, self.dscp = family, src, dst, carried, dscp

    def ip(self, *between, **lies):
        """The IP header, what stands between it and the transport header, that one, and data."""
        make = V4 if self.family == 4 else V6
        return [make(self.src, self.dst, dscp=self.dscp, **lies), *between, *self.carried]


def outer4(**lies):
    return V4(*INNOCENT[4], **lies)


def outer6():
    return V6(*INNOCENT[6])


class Encapsulation:
    """wrap(packet) gives a frame's headers. tunnel: the names of the tunnels it needs, none when it has none."""

    def __init__(self, name, wrap, families=(4, 6), tunnel=()):
        self.name, self.wrap, self.families = name, wrap, families
        self.tunnel = (tunnel,) if isinstance(tunnel, str) else tunnel


def link(name, *headers, **lies):
    return Encapsulation(name, lambda p: [Ethernet(), *(make() for make in headers), *p.ip(**lies)])


def v4(name, *between, **lies):
    return Encapsulation(name, lambda p: [Ethernet(), *p.ip(*between_now(between), **lies)], families=(4,))


def v6(name, *between, **lies):
    return Encapsulation(name, lambda p: [Ethernet(), *p.ip(*between_now(between), **lies)], families=(6,))


def between_now(makers):
    """Headers are filled in once: each frame needs its own."""
    return [make() for make in makers]


def ext(number, units=0):
    return lambda: Extension(number, units)


def fragment(offset=0, more=False):
    return lambda: Fragment(offset, more)


PLAIN = (
    # in front of IP
    link("plain"),
    link("vlan", Vlan),
    link("vlan-88a8", lambda: Vlan(0x88a8), Vlan),
    link("vlan-9100", lambda: Vlan(0x9100), Vlan),
    link("vlan-8", *[Vlan] * 8),
    link("vlan-9", *[Vlan] * 9),
    link("mpls", Mpls),
    link("mpls-3", Mpls, Mpls, Mpls),
    link("mpls-multicast", lambda: Mpls(0x8848)),
    link("vlan-mpls-8", *[Vlan] * 3, *[Mpls] * 5),
    link("vlan-mpls-9", *[Vlan] * 4, *[Mpls] * 5),
    link("pppoe", Pppoe),
    link("vlan-pppoe", lambda: Vlan(0x88a8), Vlan, Pppoe),
    link("pppoe-version", lambda: Pppoe(first=0x21)),
    link("pppoe-code", lambda: Pppoe(code=0x65)),
    link("pppoe-lcp", lambda: Pppoe(protocol=0xc021)),
    Encapsulation("not-ip", lambda p: [Ethernet(), Vlan(), Data(b"\0\1" * 40, ethertype=0x0806)]),
    Encapsulation("other-type", lambda p: [Ethernet(), Data(bytes(range(64)), ethertype=0x88cc)]),
    link("padding", padding=b"\xbb\x01" * 23),
    # IPv4
    v4("v4-options-1", options=b"\x01" * 4),
    v4("v4-options-10", options=b"\x01" * 40),
    v4("v4-total-0", total=0),
    v4("v4-total-0-padding", total=0, padding=b"\xbb\x01" * 23),
    v4("v4-total-long", total=9000),
    v4("v4-total-head", total=20),
    v4("v4-total-ports", total=24),
    v4("v4-total-half-a-port", total=23),
    v4("v4-total-short", total=19),
    v4("v4-first-fragment", fragment=0x2000),
    v4("v4-later-fragment", fragment=0x2001),
    v4("v4-last-fragment", fragment=0x1fff),
    v4("v4-flags", fragment=0xc000),
    v4("v4-ihl-4", ihl=4),
    v4("v4-ihl-15", ihl=15),
    v4("v4-version-5", version=5),
    v4("v4-checksum", right_checksum=False),
    Encapsulation("mpls-v4-checksum", lambda p: [Ethernet(), Mpls(), *p.ip(right_checksum=False)], families=(4,)),
    Encapsulation("mpls-v4-options", lambda p: [Ethernet(), Mpls(), *p.ip(options=b"\x01" * 8)], families=(4,)),
    Encapsulation("mpls-pseudowire", lambda p: [Ethernet(), Mpls(), Data(bytes(4)), Ethernet(), *p.ip()]),
    v4("v4-ah", ext(AH)),
    v4("v4-esp", lambda: Opaque(ESP)),
    v4("v4-hop-by-hop", ext(HOP_BY_HOP)),
    # IPv6
    v6("v6-hop-by-hop", ext(HOP_BY_HOP)),
    v6("v6-routing", ext(ROUTING, 2)),
    v6("v6-options", ext(OPTIONS, 1)),
    v6("v6-first-fragment", fragment(more=True)),
    v6("v6-later-fragment", fragment(offset=1, more=True)),
    v6("v6-last-fragment", fragment(offset=0x1fff)),
    v6("v6-atomic-fragment", fragment()),
    v6("v6-later-fragment-options", ext(HOP_BY_HOP), fragment(offset=185, more=True), ext(OPTIONS)),
    v6("v6-ah", ext(AH, 3)),
    v6("v6-ah-odd", ext(AH, 2)),
    v6("v6-mobility", ext(MOBILITY)),
    v6("v6-hip", ext(HIP, 4)),
    v6("v6-shim6", ext(SHIM6)),
    v6("v6-all", ext(HOP_BY_HOP), ext(OPTIONS), ext(ROUTING), fragment(more=True), ext(AH, 1), ext(MOBILITY), ext(HIP),
       ext(SHIM6), ext(OPTIONS)),
    v6("v6-esp", lambda: Opaque(ESP)),
    v6("v6-options-esp", ext(OPTIONS), lambda: Opaque(ESP)),
    v6("v6-no-next", lambda: Opaque(NO_NEXT)),
    v6("v6-unknown", lambda: Opaque(253)),
    v6("v6-16", *[ext(OPTIONS)] * 16),
    v6("v6-17", *[ext(OPTIONS)] * 17),
    v6("v6-length-0", payload_bytes=0),
    v6("v6-length-0-padding", payload_bytes=0, padding=b"\xbb\x01" * 23),
    v6("v6-length-long", payload_bytes=9000),
    v6("v6-length-in-chain", ext(OPTIONS, 2), payload_bytes=23),
    v6("v6-length-of-chain", ext(OPTIONS, 2), payload_bytes=24),
    v6("v6-length-half-a-port", payload_bytes=3),
    v6("v6-version-4", version=4),
    Encapsulation("vlan-v6-options", lambda p: [Ethernet(), Vlan(), *p.ip(Extension(OPTIONS))], families=(6,)),
)


def over(name, *headers, tunnel, outer=outer4):
    """A tunnel's headers between an innocent outer packet and the row's."""
    return Encapsulation(name, lambda p: [Ethernet(), outer(), *(make() for make in headers), *p.ip()], tunnel=tunnel)


def port(sport, dport):
    return lambda: udp(sport, dport)


def gre(flags):
    return lambda: Gre(flags)


BOTH_IP = ("ipip", "6in4")
TUNNELS = (
    over("ip-in-v4", tunnel=BOTH_IP),
    over("ip-in-v6", tunnel=BOTH_IP, outer=outer6),
    Encapsulation("ip-around-v4", lambda p: [Ethernet(), p.ip()[0], outer4(), udp(1, 2), Data()], tunnel=BOTH_IP),
    Encapsulation("ip-in-ip-split", lambda p: [
        Ethernet(), (V4 if p.family == 4 else V6)(p.src, INNOCENT[p.family][1]),
        (V4 if p.family == 4 else V6)(INNOCENT[p.family][0], p.dst), *p.carried], tunnel=BOTH_IP),
    Encapsulation("vlan-ip-in-v4-options", lambda p: [Ethernet(), Vlan(), outer4(options=b"\x01" * 12), *p.ip()],
                  tunnel=BOTH_IP),
    Encapsulation("ip-in-later-fragment", lambda p: [Ethernet(), outer4(fragment=1), *p.ip()], tunnel=BOTH_IP),
    Encapsulation("ip-in-first-fragment", lambda p: [Ethernet(), outer4(fragment=0x2000), *p.ip()], tunnel=BOTH_IP),
    Encapsulation("ip-in-v6-chain", lambda p: [
        Ethernet(), outer6(), Extension(HOP_BY_HOP), Extension(OPTIONS), *p.ip()], tunnel=BOTH_IP),
    Encapsulation("ip-broken-in-v4", lambda p: [Ethernet(), outer4(), *p.ip(version=9)], tunnel=BOTH_IP),
    Encapsulation("ip-in-short-v4", lambda p: [Ethernet(), outer4(total=60), *p.ip()], tunnel=BOTH_IP),
    Encapsulation("ip-padding-in-v4", lambda p: [Ethernet(), outer4(), *p.ip(padding=b"\xbb\x01" * 9)], tunnel=BOTH_IP),
    Encapsulation("ip-4-layers", lambda p: [Ethernet(), outer4(), outer4(), outer6(), *p.ip()], tunnel=BOTH_IP),
    Encapsulation("ip-5-layers", lambda p: [Ethernet(), outer4(), outer4(), outer6(), outer4(), *p.ip()],
                  tunnel=BOTH_IP),
    over("gre", gre(0), tunnel="gre"),
    over("gre-in-v6", gre(0), tunnel="gre", outer=outer6),
    over("gre-checksum", gre(0x8000), tunnel="gre"),
    over("gre-key", gre(0x2000), tunnel="gre"),
    over("gre-sequence", gre(0x1000), tunnel="gre"),
    over("gre-all", gre(0xb000), tunnel="gre"),
    over("gre-version-1", gre(0x0001), tunnel="gre"),
    over("gre-routing", gre(0x4000), tunnel="gre"),
    over("gre-mpls", gre(0), Mpls, tunnel="gre"),
    over("gre-ethernet", gre(0x2000), Ethernet, tunnel="gre"),
    over("gre-ethernet-vlan", gre(0), Ethernet, Vlan, tunnel="gre"),
    over("vxlan", port(40000, 4789), Vxlan, Ethernet, tunnel="vxlan"),
    over("vxlan-in-v6", port(40000, 4789), Vxlan, Ethernet, tunnel="vxlan", outer=outer6),
    over("vxlan-vlan", port(40000, 4789), Vxlan, Ethernet, Vlan, tunnel="vxlan"),
    over("vxlan-mpls", port(40000, 4789), Vxlan, Ethernet, Mpls, tunnel="vxlan"),
    over("vxlan-vlan-9", port(40000, 4789), Vxlan, Ethernet, *[Vlan] * 9, tunnel="vxlan"),
    over("vxlan-no-flag", port(40000, 4789), lambda: Vxlan(flags=0), Ethernet, tunnel="vxlan"),
    over("vxlan-source-port", port(4789, 40000), Vxlan, Ethernet, tunnel="vxlan"),
    over("vxlan-tcp", lambda: WithPorts(TCP, 40000, 4789), Vxlan, Ethernet, tunnel="vxlan"),
    over("geneve", port(40000, 6081), Geneve, Ethernet, tunnel="geneve"),
    over("geneve-options", port(40000, 6081), lambda: Geneve(3), Ethernet, tunnel="geneve"),
    over("geneve-ip", port(40000, 6081), lambda: Geneve(1), tunnel="geneve"),
    over("geneve-version", port(40000, 6081), lambda: Geneve(version=1), Ethernet, tunnel="geneve"),
    over("geneve-source-port", port(6081, 40000), Geneve, Ethernet, tunnel="geneve"),
    over("gtpu", port(2152, 2152), Gtpu, tunnel="gtpu"),
    over("gtpu-source-port", port(2152, 40000), Gtpu, tunnel="gtpu"),
    over("gtpu-sequence", port(40000, 2152), lambda: Gtpu(2), tunnel="gtpu"),
    over("gtpu-extension", port(40000, 2152), lambda: Gtpu(0, (4,)), tunnel="gtpu"),
    over("gtpu-extensions", port(40000, 2152), lambda: Gtpu(2, (8, 4)), tunnel="gtpu"),
    over("gtpu-echo", port(40000, 2152), lambda: Gtpu(message=1), tunnel="gtpu"),
    over("gtpu-in-v6", port(40000, 2152), Gtpu, tunnel="gtpu", outer=outer6),
    Encapsulation("teredo", lambda p: [Ethernet(), outer4(), udp(3544, 40000), Teredo(), *p.ip()], (6,), "teredo"),
    Encapsulation("teredo-to", lambda p: [Ethernet(), outer4(), udp(40000, 3544), Teredo(), *p.ip()], (6,), "teredo"),
    Encapsulation("teredo-origin", lambda p: [
        Ethernet(), outer4(), udp(3544, 40000), Teredo(origin=True), *p.ip()], (6,), "teredo"),
    Encapsulation("teredo-authentication", lambda p: [
        Ethernet(), outer4(), udp(3544, 40000), Teredo(authentication=True, origin=True), *p.ip()], (6,), "teredo"),
    Encapsulation("vxlan-gre", lambda p: [Ethernet(), outer4(), udp(40000, 4789), Vxlan(), Ethernet(), outer4(), Gre(),
                                          *p.ip()], tunnel=("vxlan", "gre")),
)
ALL_TUNNELS = ("ipip", "6in4", "gre", "vxlan", "geneve", "gtpu", "teredo")

# Carried when a row does not name a protocol: with ports, or any.
CARRIERS = (TCP, UDP, SCTP, DCCP, UDP_LITE)


def carried_headers(family, fields, turn):
    """The transport header that the fields ask for, and data behind it."""
    number = fields.get("proto", fields.get("carrier"))
    if number is None:
        number = CARRIERS[turn % 5] if "sport" in fields or "dport" in fields else (*CARRIERS, ICMP, ICMP6)[turn % 7]
    if number in (ICMP, ICMP6):
        head = Icmp(number, fields.get("icmp_type", 8 if family == 4 else 128), fields.get("icmp_code", 0))
    elif number in CARRIERS:
        head = WithPorts(number, fields.get("sport", 40001), fields.get("dport", 40002), fields.get("flags", SYN))
    else:
        head = Opaque(number)
    return [head, Data((b"data" * 300)[:fields.get("data", 4)])]
