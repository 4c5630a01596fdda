"""Writes the seeds of every fuzz target, below FOLDER/corpus-seed/NAME, and an empty FOLDER/corpus/NAME for what fuzzing
finds. Inputs that crashed a target once (tests/fuzz/crashes/NAME) are seeds too.

    make_corpus.py FOLDER MAKE_CORPUS [STAMP]      MAKE_CORPUS: the program that writes the seeds of book, events, snapshot and wire
"""

import glob
import gzip
import json
import lzma
import os
import random
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(1, os.path.join(ROOT, "tests", "rig"))
import rooms  # noqa: E402,F401
from send_expect import frame_of  # noqa: E402
from send_expect_rows import PLAIN, TUNNELS  # noqa: E402

TARGETS = ("bgp", "book", "crowdsec", "drawn_feeds", "entry", "etcd", "events", "policy", "printable", "feed", "feed_line", "fetch", "fleet", "filter", "flowspec", "formats", "listen", "snapshot", "frame", "frame_text", "wire", "steering")
LONGEST_POLICY = 4096

LINES = """\
192.0.2.1
192.0.2.0/24
192.0.2.1/24
192.0.2.0/255.255.255.0
192.0.2.0/255.0.255.0
192.0.2.0/0.0.0.255
192.0.2.1-192.0.2.9
192.0.2.1 - 192.0.2.9 , 0 , x
192.0.2.1- 192.0.2.9
192.0.2.1 -192.0.2.9
192.0.2.1 - remark
192.0.2.9-192.0.2.1
192.0.2.1-2001:db8::1
192.0.2.1-
-192.0.2.1
192.0.2.1:443
192.0.2.1:0
192.0.2.1:65536
192.0.2.1:0443
192.0.2.1:
192.0.2.0/24:443
[192.0.2.1]:443
192.0.2.01
192.0.2.256
192.0.2
192.0.2.1.1
192.0.2.1/33
192.0.2.1/024
192.0.2.1/
0.0.0.0/0
0.0.0.0-255.255.255.255
::/0
::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff
::
::1
1::
2001:db8::1
2001:DB8:0:0:0:0:0:1
2001:db8::/32
2001:db8::1/129
2001:db8::/ffff::
2001:db8::1-2001:db8::9
2001:db8::9-2001:db8::1
[2001:db8::1]:443
[2001:db8::1]
[2001:db8::1]443
[2001:db8::1
[2001:db8::1]:0
[2001:db8::/32]:443
2001:db8:::1
1:2:3:4:5:6:7:8:9
1:2:3:4:5:6:7:8
1:2:3:4:5:6:7::
1::2::3
12345::
::192.0.2.1
::ffff:192.0.2.1
::ffff:0:0/96
64:ff9b::192.0.2.33
64:ff9b::192.0.2.333
::/8
fe80::1%eth0
192.0.2.1 further words # comment
192.0.2.1;comment
# comment
; comment

example.org
-
/
:
0x7f.1
+1.2.3.4
1.2.3.4 \t 5
"""

# Every key of docs/use/policy.md, and each value that has a wrong twin.
POLICY = """\
version: 1
state_dir: /var/lib/weir
policy:
  default: pass
  unparsed: drop
  tunnels: [ipip, 6in4, gre, vxlan, geneve, gtpu, teredo]
  own: [192.0.2.0/28, "2001:db8:0:1::/64", 10.0.0.1-10.0.0.9]
filter:
  false_positive_rate: 0.005
  memory: 512MiB
  layout: page2
  canaries: [192.0.2.1, "2001:db8::1"]
targets:
  - dataplane: /run/weir/dataplane.sock
  - dataplane: /run/weir/second.sock
  - xdp: {interfaces: [eth0, eth1], attach: auto}
lists:
  - name: partners
    action: pass
    match: either
    entries: [192.0.2.0/24, "2001:db8::/32"]
  - &list {name: c2, action: drop, mode: monitor, match: dst, file: feeds/c2.txt, format: plain, allow_any: true,
           ipv6_aggregate: 128, entries: [0.0.0.0/0, "::/0", 192.0.2.1/24, 203.0.113.7:443, "[2001:db8::7]:443"]}
  - name: maps
    action: drop
    entries:
      - {src: 192.0.2.1, sport: 53, comment: ticket 12}
      - {dst: 203.0.113.9, dport: 443}
      - {dst: 2001:db8::-2001:db8::9}
      - {entry: 203.0.113.8, comment: ~}
"""
FLOWS = """\
version: 1
lists:
  - name: flows
    action: drop
    entries:
      - %s
"""
FLOW_ENTRIES = (
    "{src: 10.0.0.0/8, dst: 203.0.113.9, proto: tcp, dport: 8000-8010, comment: ticket 12}",
    "{src: 10.0.0.0/8, dst: '2001:db8::1'}", "{src: 10.0.0.1, dst: 10.0.0.2}", "{src: 10.0.0.1-10.0.0.9, proto: 255}",
    "{dst: 203.0.113.9, proto: icmp, icmp: {type: 8}}", "{dst: '2001:db8::1', proto: icmpv6, icmp: {type: 1, code: 4}}",
    "{dst: 203.0.113.9, proto: icmp, icmp: {code: 8}}", "{dst: 203.0.113.9, proto: tcp, icmp: {type: 256}}",
    "{dst: 203.0.113.9, proto: tcp, tcp_flags: {set: [syn], mask: [syn, ack]}}",
    "{dst: 203.0.113.9, proto: tcp, tcp_flags: {set: [syn, fin], mask: [ack]}}",
    "{dst: 203.0.113.9, proto: tcp, tcp_flags: {set: [], mask: [fin, syn, rst, psh, ack, urg, ece, cwr]}}",
    "{dst: 203.0.113.9, proto: udp, sport: 123, length: 200-}", "{src: 192.0.2.0/24, dscp: [46, 10-14], fragment: later}",
    "{length: 20-65575, fragment: any}", "{dscp: 64, length: 0-}", "{dst: '2001:db8::1', length: 39, dport: 53}",
    "{fragment: later, dport: 53}", "{dscp: [], fragment: none}",
    "{dst: 203.0.113.9, proto: udp, tcp_flags: {set: [no], mask: []}}", "{dst: 203.0.113.9, proto: nothing}",
    "{entry: 203.0.113.8, expires: 2026-12-01T00:00:00Z}", "{entry: 203.0.113.8:80, expires: 2006-12-01T00:00:00Z}",
    "{entry: 203.0.113.8, expires: 2026-02-30T00:00:00Z}", "{entry: 203.0.113.8, expires: 2026-12-01}",
    "{entry: 203.0.113.8, expires: 9999-12-31T23:59:59Z}", "{src: 10.0.0.1, sport: 1-65535, dport: 53}",
    "{src: 10.0.0.1, proto: udp, sport: 9-8}", "{src: 10.0.0.1, dport: 0}", "{src: 10.0.0.1, dport: 65536}",
    "{dport: 53, proto: udp}", "{proto: 47}", "{sport: 53}", "{src: 10.0.0.1, proto: icmp, dport: 53}",
    "{src: 10.0.0.0/8, sport: 25}", "{src: 0.0.0.0/0, dst: 10.0.0.1}", "{entry: 10.0.0.1, src: 10.0.0.1}", "{}",
    "{comment: nothing}", "{src: [10.0.0.1]}", "{src: 10.0.0.1, proto: [tcp]}", "{src: 10.0.0.1, icmp: 8}",
    "{src: 10.0.0.1, proto: tcp, tcp_flags: syn}", "[10.0.0.1]", "~", "''", "*unknown",
)
SMALL_POLICIES = (
    "", "\n", "~", "[]", "version: 1", "version: 2\n", "version: '1'\n", "version: 1\nlists: []\n", "version: 1\nlists: ~\n",
    "version: 1\ntargets: []\nlists: []\n", "version: 1\nlists: [~, a, [], {name: a}]\n", "a: &a [*a]\n", "a: b: c\n", "\t",
    "version: 1\n...\nversion: 1\n", "version: 1\n---\nversion: 1\n", "? [a]\n: b\n", "? {a: b}\n: c\n", "!!int a: !x b\n",
    "a: |\n  b\n  c\nd: >\n  e\n", "a: \"\\x41\\u0041\\n\"\n", "a: 'it''s'\n", "%YAML 1.2\n---\na: b\n", "a: [1, 2\n",
    "\xef\xbb\xbfversion: 1\n", "a: \x01\n", "[" * 70, "{a: " * 70, "a: &x {b: c}\n<<: *x\n",
    "x: &a [1,1,1,1,1,1,1,1]\ny: &b [*a,*a,*a,*a,*a,*a]\nz: [*b,*b,*b,*b,*b,*b]\n",
)


def write(folder, target, name, content):
    path = os.path.join(folder, "corpus-seed", target)
    with open(os.path.join(path, name), "wb") as file:
        file.write(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)


def frames(folder):
    for turn, (encapsulation, family) in enumerate(
            (encapsulation, family) for encapsulation in PLAIN + TUNNELS for family in encapsulation.families):
        frame = frame_of(encapsulation, family, {}, turn)
        name = f"{encapsulation.name}-{family}"
        write(folder, "frame", name, frame.bytes)
        separator = (" ", "", ":", "\n")[turn % 4]
        write(folder, "frame_text", name, frame.bytes.hex(separator) if separator else frame.bytes.hex().upper())
        for header in frame.headers:  # cut off just before its end
            write(folder, "frame", f"{name}-{header.end - 1}", frame.bytes[:header.end - 1])


# Texts that are none, or have blanks everywhere.
FRAME_TEXTS = ("", " ", "0", "02 0", "0 2", "02:0:0", "0x02", "02\r\n00\t08", "0000: 0200", "02 00  ..", "gg", ":", "\x00", "zz" * 40)


# A line with names of columns, then a line.
FEED_LINES = ("\n192.0.2.0/24 ; SBL123", "\n192.0.2.1 # ticket 12", "ip,ticket,source\n192.0.2.1,T-7,honeypot", "a;b\n1;2;3", "\n\"a,b\",\"c",
              '\n{"ip": "192.0.2.1", "score": 7, "tags": ["a"], "seen": {"at": 1}}', '\n{"ip": "192.0.2.1"', "\n[1, 2]", "\n", "\nadd set 192.0.2.1")


def feed_lines(folder):
    for number, text in enumerate(FEED_LINES):
        write(folder, "feed_line", f"line-{number}", text)


# ESC, BEL, CR, DEL, C1 and bidi characters, and bytes that are no UTF-8.
FOREIGN_TEXTS = (b"plain", "B\xf6se \u20ac \U0001f41f".encode(), b"\x1b[31m\x07\r\n\t\0\x7f", "\x9b31m\x85".encode(), "\u061c\u200e\u202e\u2066".encode(),
                 "\u2028\u2029\ufeff".encode(), b"\x9b\xff\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80\xe2\x80", b'"\\<&>\'')


def foreign_texts(folder):
    for number, text in enumerate(FOREIGN_TEXTS):
        write(folder, "printable", f"text-{number}", text)


def frame_texts(folder):
    for number, text in enumerate(FRAME_TEXTS):
        write(folder, "frame_text", f"text-{number}", text)


def policies(folder):
    for path in glob.glob(os.path.join(ROOT, "configs", "*.yaml")) + glob.glob(os.path.join(ROOT, "configs/bad/*.yaml")):
        if os.path.getsize(path) <= LONGEST_POLICY:
            shutil.copy(path, os.path.join(folder, "corpus-seed/policy", os.path.basename(path)))
    write(folder, "policy", "design", POLICY)
    for number, text in enumerate(SMALL_POLICIES):
        write(folder, "policy", f"small-{number}", text)
    for number, entry in enumerate(FLOW_ENTRIES):
        write(folder, "policy", f"flow-{number}", FLOWS % entry)
    for number, line in enumerate(LINES.splitlines()):
        write(folder, "policy", f"entry-{number}", FLOWS % ('"' + line.replace("\t", " ") + '"'))
    write(folder, "policy", "flows", FLOWS % "\n      - ".join(FLOW_ENTRIES[:6]))


STEERING = """\
version: 1
default: worker
link: worker
rules:
  - %s
"""
STEERING_RULES = (
    "{to: worker, family: 6, proto: udp, src: '2001:db8::/32', dst: '2001:db8::1', sport: 1-65535, dport: 53, comment: x}",
    "{to: kernel, src: 192.0.2.0/24, dst: 0.0.0.0/0}", "{to: kernel, family: 4, src: '2001:db8::1'}",
    "{to: kernel, src: 192.0.2.1, dst: '2001:db8::1'}", "{to: kernel, src: 192.0.2.0-192.0.2.9}", "{to: nowhere}",
    "{to: worker}", "{to: worker, proto: 255}", "{to: worker, proto: nothing}", "{to: worker, dport: 9-8}",
    "{to: worker, dport: 65536}", "{to: worker, proto: icmp, dport: 80}", "{src: 192.0.2.1}", "{to: worker, other: 1}", "{}",
    "~", "[]", "''", "*unknown",
)


def entries(folder):
    for number, text in enumerate((
            "203.0.113.7", "198.51.100.0/24", "203.0.113.10-203.0.113.99", "203.0.113.7:443", "[2001:db8::7]:443", "2001:db8::/32",
            "src 10.0.0.0/8 dst 203.0.113.9 proto tcp dport 8000-8010 tcp-flags syn/syn,ack",
            "dst 2001:db8::9 icmpv6 icmp-type 128 icmp-code 0", "src 192.0.2.0/24 dscp 10-14,46 fragment later length 200-")):
        write(folder, "entry", f"entry-{number}", text)


def steering(folder):
    shutil.copy(os.path.join(ROOT, "configs/steer.yaml"), os.path.join(folder, "corpus-seed/steering/manual"))
    for number, rule in enumerate(STEERING_RULES):
        write(folder, "steering", f"rule-{number}", STEERING % rule)
    write(folder, "steering", "all", STEERING % "\n  - ".join(STEERING_RULES[:2]))
    for number, text in enumerate(SMALL_POLICIES):
        write(folder, "steering", f"small-{number}", text.replace("lists", "rules"))


FETCH_STATE = ("weir fetch state 1\nurl https://192.0.2.1/a\netag \"1\"\nlast_modified %s\ntried_at 1\nfetched_at 2\nchanged_at %s\n"
               "next_at 4\nbytes 5\nfailures %s\nerror the server answers 500\n")


ETCD_ANSWERS = (
    '{"header":{"revision":"2"},"kvs":[{"key":"YQ==","create_revision":"2","mod_revision":"3","value":"MQ==","lease":"7"}],"more":true}',
    '{"header":{"revision":"3"},"succeeded":true,"responses":[{"response_put":{}},{"response_range":{"kvs":[{"key":"YQ=="}]}}]}',
    '{"ID":"7","TTL":"10"}', '{"result":{"ID":"7","TTL":"15"}}', '{"token":"abc"}',
    '{"result":{"header":{"revision":"4"},"events":[{"type":"DELETE","kv":{"key":"Yg==","mod_revision":"4"}}]}}',
    '{"result":{"canceled":true,"compact_revision":"4"}}', '{"error":{"grpc_code":14,"message":"etcdserver: no leader"}}',
    '{"header":{"revision":"4"},"version":"3.4.23","dbSize":"20480","leader":"1"}', '{"error":"too large","code":3}', "Zm9vYg==")

FLEET_TEXTS = (
    '{"turn":3,"id":"x","revision":5,"since":1,"groups":[{"group":"canary","revision":6,"since":2}],"staged":6,"everywhere":5,'
    '"everywhere_before":4,"is_paused":false,"by":"a","what":"b","at":7}',
    '{"number":3,"policy":"weir.yaml","files":[{"path":"weir.yaml","digest":"' + "a" * 64 + '","bytes":10,"packed_bytes":9,"chunks":1},'
    '{"path":"feeds/a.txt","digest":"' + "b" * 64 + '","bytes":10,"packed_bytes":9,"chunks":0,"url":"http://192.0.2.1/b"}],'
    '"by":"a","comment":"","at":7}',
    '{"by":"a","node":"n1","comment":"c","ttl_s":60,"at":7}',
    '{"kind":"entries","text":"","error":"","digest":"","number":0,"bytes":0,"at":7,"is_whole":true,"is_last":true,"entries":'
    '[{"list":"jail","entry":"192.0.2.1","is_gone":false,"ttl_s":0,"comment":""}]}',
    "/weir/edge/live/entries/jail/192.0.2.1")


def texts(folder, target, rows):
    for number, text in enumerate(rows):
        write(folder, target, f"text-{number}", text)


def fetch(folder):
    for number, values in enumerate((("", 3, 0), ("Wed, 21 Oct 2026 07:28:00 GMT", -3, 1), ("", "x", 1 << 32), ("\n", 3, 0))):
        write(folder, "fetch", f"state-{number}", FETCH_STATE % values)
    write(folder, "fetch", "short", FETCH_STATE[:60])


# As `tcpdump -ddd` prints: a filter of udp port 53, one that divides, one with memory; and some that are none.
FILTERS = ("1,6 0 0 1", "4,40 0 0 12,21 0 1 2048,6 0 0 262144,6 0 0 0,", "3,97 0 0 3,2 0 0 15,6 0 0 1", "3,0 0 0 7,28 0 0 0,22 0 0 0", "2,32 0 0 4294967295,6 0 0 1",
           "5,0 0 0 1,2 0 0 3,96 0 0 3,36 0 0 9,22 0 0 0", "3,177 0 0 14,72 0 0 2,22 0 0 0", "3,128 0 0 0,53 0 0 60,6 0 0 1", "2,52 0 0 0,6 0 0 1", "2,5 0 0 9,6 0 0 1",
           "0", "1", "1,6 0 0", "2,6 0 0 1", "1,6 0 0 1,6 0 0 1", "1,65536 0 0 1", "4097,6 0 0 1", "", ",", "1,6 0 0 -1")


def frame_filter(folder):
    for number, text in enumerate(FILTERS):
        write(folder, "filter", f"program-{number}", text)


PLACES = ("127.0.0.1:9617", "[::1]:9617", "0.0.0.0:1", "[::]:65535", "off", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "[::1", "::1:9617", "01.2.3.4:5",
          "localhost", "localhost:9617", "LOCALHOST.", "rack7", "rack7.example.net:80", "rack7.example.net.evil.example", "evil.example", "[::1]", "[::1]x",
          "192.0.2.1:80:80", ":80", "")


def drawn_feeds(folder):
    choices = random.Random(1)
    for number in range(64):  # the first byte chooses the format
        write(folder, "drawn_feeds", f"tape-{number}", bytes([number]) + choices.randbytes(300))


def listen(folder):
    for number, place in enumerate(PLACES):
        write(folder, "listen", f"place-{number}", place)


DURATIONS = ("3h59m58.99186844s", "-10.898208ms", "1h", "0s", "0", "90000000h", "1us", "2\u00b5s", "1.5.5s", "1", "s", "")
VALUES = ("192.0.2.1", "192.0.2.2", "192.0.2.3/24", "10.0.0.0/0", "2001:db8::1", "2001:db8::/32", "::ffff:192.0.2.1", "FR", "192.0.2.1:80", "")


def crowdsec(folder):
    def decision(number, value="192.0.2.1", duration="4h", **other):
        return {"duration": duration, "id": number, "origin": "cscli", "scenario": "manual 'ban' from 't'", "scope": "Ip", "type": "ban", "value": value,
                **other}

    answers = [
        {"new": None, "deleted": None}, {}, {"message": "access forbidden"}, {"new": []}, {"new": [1]}, {"new": [{"id": 1}]}, {"new": {}, "deleted": 7},
        {"new": [decision(1, duration="4h"), decision(2, duration="1h")], "deleted": [decision(1)]},
        {"new": [decision(1, type="captcha"), decision(2, scope="Country", value="FR"), decision(3, scope="range", value="192.0.2.0/24")], "deleted": None},
        {"new": [decision(1, origin="", scenario=""), decision(2, scenario="\u20ac" * 200), decision(3, scenario="\n\u0007")]},
        {"new": [decision(number, value) for number, value in enumerate(VALUES)], "deleted": [decision(3, VALUES[3])]},
        {"new": [decision(number, duration=duration) for number, duration in enumerate(DURATIONS)]},
        {"new": [decision(-1)]}, {"new": [decision(1 << 64)]}, {"new": [decision("1")]},
    ]
    for number, answer in enumerate(answers):
        write(folder, "crowdsec", f"answer-{number}", json.dumps(answer, separators=(",", ":")))
    for number, text in enumerate((*DURATIONS, *VALUES)):
        write(folder, "crowdsec", f"text-{number}", text)


# What a feed may turn out to be, by how it begins.
CONTENTS = (
    b"\x1f\x8b\x08", b"PK\x03\x04", b"%PDF-1.4", b"\xff\xfe1\0", b"1\09\0002\0.\0" * 3, bytes(8) + b"1",
    b"<!DOCTYPE html>\n<html>\n", b"<?xml version=\"1.0\"?>\n", b"\xef\xbb\xbf <rss>\n", b"<192.0.2.1>\n",
    b"{\"ip\": 1}\n", b"[ \"192.0.2.1\" ]\n", b"{}\n", b"[\n", b"192.0.2.1\r192.0.2.2\r192.0.2.3\r192.0.2.4\r1",
)
# The second half is what it was, or what became of the whole: more, less, wider, other, worse, cut off.
CHANGES = (
    "10.0.0.0/8\n192.0.2.1\n", "8.0.0.0/7\n1.0.0.0/8\n", "0.0.0.0/1\n64.0.0.0/2\n128.0.0.0/3\n1.0.0.0/8\n",
    "2400::/12\n2600::/8\n2001:db8::/32\n", "192.0.2.1\n" * 8, "".join(f"192.0.2.{n}\n" for n in range(1, 16)),
    "x\n" * 20 + "192.0.2.1\n" * 4, "192.0.2.1\n" * 3 + "192.0.2.2",
    "192.0.2.1\n192.0.2.2:53\n2001:db8::1\n2001:db8::/48\n", "".join(f"2001:db8::{n:x}\n" for n in range(20)),
)


def feeds(folder):
    lines = LINES.splitlines()
    for number, line in enumerate(lines):
        write(folder, "feed", f"line-{number}", line)
        write(folder, "feed", f"crlf-{number}", f" {line}\r\n")
    write(folder, "feed", "all", LINES)
    write(folder, "feed", "mark", b"\xef\xbb\xbf192.0.2.1\n\n\x0b\x0c\r\n")
    write(folder, "feed", "binary", bytes(range(256)))
    for number, content in enumerate(CONTENTS):  # of a length that asks complaint_of_content
        write(folder, "feed", f"content-{number}", content + b"\n" * (-len(content) % 4))
    for number, text in enumerate(CHANGES):  # of one that asks for a change, by eight guards
        for bits in range(8):
            rest = "#" * ((2 - len(text) - 1) % 8 + 8 * bits)
            write(folder, "feed", f"change-{number}-{bits}", rest + "\n" + text)
    write(folder, "feed", "long", "x" * 200 + "\n" + "192.0.2.1 " + "y" * 200)
    for path in glob.glob(os.path.join(ROOT, "configs/feeds/*.txt")):
        if os.path.getsize(path) <= LONGEST_POLICY:
            shutil.copy(path, os.path.join(folder, "corpus-seed/feed", os.path.basename(path)))


# The first line says as what the others are read: a format and its settings.
FORMATS = (
    "p2p\nname:192.0.2.1-192.0.2.9\nx:2001:db8::1-2001:db8::9\n", "dat\n001.002.003.000 - 001.002.003.255 , 000 , x\n",
    "ipset\ncreate a hash:ip timeout 300\nadd a 192.0.2.1 timeout 60\nadd a 192.0.2.0/28 nomatch\n",
    "ipset\ncreate a hash:ip netmask 24 comment\nadd a 192.0.2.0 comment \"x timeout 5\" timeout 0\n",
    "nft\ntable t {\n set s {\n  type ipv4_addr . mark\n  elements = { 192.0.2.1 timeout 5s expires 4s9ms comment \"x\", \"eth0\" }\n }\n}\n",
    "nft\ntable inet t {\n set s {\n  elements = { 192.0.2.1, 192.0.2.2-192.0.2.9,\n  192.0.2.4 . 443 timeout 1h }\n }\n}\n",
    "nft\ndefine x = { 192.0.2.1 }\nadd element inet t s { 2001:db8::1 comment \"x, }\" }\n",
    "nginx\ndeny 192.0.2.0/28;\nallow 192.0.2.1; deny all;\n", "iproute\nip -6 route add blackhole 2001:db8::/32 via ::1\n",
    "zeek\n#fields\tindicator\tindicator_type\n192.0.2.1\tIntel::ADDR\nx.cz\tIntel::DOMAIN\n",
    "csv\n\"first\",\"dst_ip\",\"dst_port\"\n\"1\",\"192.0.2.1\",\"443\"\n\"1\n2\",\"192.0.2.2\",\n",
    "csv address=2,length=3\nAD,2001:db8::,32,ipv6\n", "csv address=1,last=2,separator=pipe\n192.0.2.1|192.0.2.9|x\n",
    "json\n[\"192.0.2.1\", \"2001:db8::\\u0031\"]\n", "json path=a.b|c\n{\"a\": [{\"b\": [\"192.0.2.1\"]}], \"c\": \"192.0.2.2\"}",
    "json address=x,port=y\n[{\"x\": \"192.0.2.1\", \"y\": 443, \"z\": {\"ip\": null}}]",
    "jsonl\n{\"ip\": \"192.0.2.0\", \"prefix_length\": 28}\n{\"start\": \"192.0.2.1\", \"end\": \"192.0.2.9\"}\n",
    "spamhaus\n{\"cidr\":\"192.0.2.0/28\",\"rir\":\"x\"}\n{\"type\":\"metadata\",\"records\":1}\n",
    "misp\n{\"description\": \"x\", \"list\": [\"192.0.2.1\"], \"type\": \"cidr\"}",
    "crowdsec\n[{\"decisions\":[{\"duration\":\"1h2m3.4s\",\"scope\":\"Ip\",\"type\":\"ban\",\"value\":\"192.0.2.1\"}]}]",
    "rir\n2|arin|20260101|1|1|20260101|+0100\narin|*|ipv4|*|1|summary\narin|ZZ|ipv4|192.0.2.0|16|x|assigned\n",
    "rir value=count\narin|ZZ|ipv4|192.0.2.0|24|x|assigned\narin|ZZ|ipv6|2001:db8::|32|x|allocated\n",
    "aws\n{\"prefixes\":[{\"ip_prefix\":\"192.0.2.0/28\"}],\"ipv6_prefixes\":[{\"ipv6_prefix\":\"2001:db8::/32\"}]}",
    "gcp\n{\"prefixes\":[{\"ipv4Prefix\":\"192.0.2.0/28\"}]}",
    "azure\n{\"values\":[{\"properties\":{\"addressPrefixes\":[\"192.0.2.0/28\"]}}]}",
    "cloudflare\n{\"result\":{\"ipv4_cidrs\":[\"192.0.2.0/28\"]},\"success\":false}",
    "fastly\n{\"addresses\":[\"192.0.2.0/28\"],\"ipv6_addresses\":[]}",
    "github\n{\"hooks\":[\"192.0.2.0/28\"],\"web\":[],\"git\":[],\"domains\":{\"x\":[\"a.example\"]}}",
    "oracle\n{\"regions\":[{\"cidrs\":[{\"cidr\":\"192.0.2.0/28\"}]}]}",
    "stix\n{\"type\":\"bundle\",\"objects\":[{\"type\":\"indicator\",\"pattern_type\":\"stix\",\"labels\":[\"benign\"],"
    "\"pattern\":\"[ipv4-addr:value IN ('192.0.2.1','192.0.2.2')] OR [(ipv6-addr:value = '2001:db8::1')]\"}]}",
    "misp-event\n{\"Event\":{\"Attribute\":[{\"type\":\"ip-dst|port\",\"to_ids\":true,\"value\":\"192.0.2.1|443\",\"Tag\":[]}]}}",
    "suricata\nalert ip [192.0.2.1,![192.0.2.2, $X]] any -> any 80 \\\n (msg:\"x\\\";\"; sid:1;)\n",
    "mikrotik\n/ip firewall address-list\nadd list=a address=192.0.2.1 timeout=\"1d 00:00:10\" comment=\"x;\"\n:do { /ip/x/add } on-error={}\n",
    "hosts-deny\nALL, sshd: 192.0.2., [2001:db8::]/32 EXCEPT 192.0.2.1 : allow\n",
    "access\n192.0.2.1 REJECT x\n192.0.2 1\nConnect:192.0.2.2 ERROR:550 x\nif x\n",
    "iprep\n192.0.2.1,1,127\n", "rbldnsd\n:127.0.0.2:x\n192.0.2.9-20 :1:y\n!192.0.2.10\n$SOA 1 x\n192.0.2\n",
    "auto\n<html>", "plain\n192.0.2.1\r192.0.2.2\r192.0.2.3\r",
)


def formats(folder):
    packers = (gzip.compress, lambda text: lzma.compress(text, check=lzma.CHECK_CRC32))
    for number, text in enumerate(FORMATS):
        first, _, rest = text.partition("\n")
        write(folder, "formats", f"text-{number}", text)
        write(folder, "formats", f"auto-{number}", "auto\n" + rest)
        for which, pack in enumerate(packers):
            write(folder, "formats", f"packed-{number}-{which}", first.encode() + b"\n" + pack(rest.encode()))
    zstd = b"\x28\xb5\x2f\xfd\x20\x0a\x51\x00\x00192.0.2.1\n"  # one block that is not packed
    write(folder, "formats", "zstd", b"auto\n" + zstd)


RULES = (  # family, bytes
    (4, "01 18 c0 00 02 03 81 06 04 81 19"), (4, "01 18 c0 00 02 02 18 cb 00 71 04 03 89 45 8b 91 1f 90"), (4, "01 20 c0 00 02 01 0c 80 05"),
    (4, "01 00 02 20 01 02 03 04"), (4, "05 02 10 44 20 86 30"), (4, "03 01 06 81 11 05 95 03 ff"), (4, "07 81 08 08 81 00"),
    (4, "09 01 02 c2 10"), (4, "09 80 03"), (4, "09 90 01 02"), (4, "0a 03 64 d5 00 c8"), (4, "0b 01 2e 03 0a c5 0e 0c 82 06"), (4, "0c 81 04"),
    (6, "01 20 00 20 01 0d b8 02 68 40 12 34 56 78 9a 03 81 06"), (6, "01 40 00 20 01 0d b8 00 00 00 00 07 01 80 81 81"), (6, "0d 81 07"),
    (6, "01 20 00 20 01 0d b8 0a b2 00 00 ff ff 0c 80 0a"))


def flowspec(folder):
    for number, (family, text) in enumerate(RULES):
        rule = bytes.fromhex(text)
        write(folder, "flowspec", f"rule-{number}", bytes((family == 6,)) + rule)
        write(folder, "flowspec", f"field-{number}", bytes((family == 6, len(rule))) + rule)


def message(kind, body):
    return b"\xff" * 16 + (19 + len(body)).to_bytes(2, "big") + bytes((kind,)) + body


def update(attributes):
    return message(2, b"\0\0" + len(attributes).to_bytes(2, "big") + attributes)


def bgp(folder):
    """Messages of a peer, as a session takes them."""
    opened = message(1, bytes.fromhex("04 fd e9 00 5a 00 00 00 02 1e 02 1c 01 04 00 01 00 85 01 04 00 02 00 85 41 04 00 00 fd e9 40 02 00 00 46 00 06 00"))
    alive = message(4, b"")
    drop = bytes.fromhex("c0 10 08 80 06 00 00 00 00 00 00")
    others = bytes.fromhex("40 01 01 00 40 02 06 02 01 00 00 fd e9 40 05 04 00 00 00 64")
    found = {"open": opened + alive, "end": update(bytes.fromhex("80 0f 03 00 01 85")), "notification": message(3, bytes.fromhex("06 02 04 62 79 65 21")),
             "refresh": message(5, bytes.fromhex("00 01 00 85"))}
    for number, (family, text) in enumerate(RULES):
        rule = bytes.fromhex(text)
        nlri = bytes((len(rule),)) + rule
        head = bytes((0, 1 if family == 4 else 2, 133))
        reach, unreach = head + b"\0\0" + nlri, head + nlri
        announced = update(bytes((0x80, 14, len(reach))) + reach + others + drop)
        withdrawn = update(bytes((0x80, 15, len(unreach))) + unreach)
        found[f"announced-{number}"] = announced
        found[f"both-{number}"] = announced + withdrawn
    for name, content in found.items():
        for first in (0, 1):
            write(folder, "bgp", f"{name}-{first}", bytes((first,)) + content)
        write(folder, "bgp", f"{name}-body", b"\0" + content[19:])


def main():
    folder = sys.argv[1]
    shutil.rmtree(os.path.join(folder, "corpus-seed"), ignore_errors=True)
    for target in TARGETS:
        os.makedirs(os.path.join(folder, "corpus-seed", target))
        os.makedirs(os.path.join(folder, "corpus", target), exist_ok=True)
        for path in glob.glob(os.path.join(ROOT, "tests/fuzz/crashes", target, "*")):
            shutil.copy(path, os.path.join(folder, "corpus-seed", target, "crash-" + os.path.basename(path)))
    frames(folder)
    frame_texts(folder)
    foreign_texts(folder)
    feed_lines(folder)
    policies(folder)
    feeds(folder)
    entries(folder)
    formats(folder)
    steering(folder)
    fetch(folder)
    texts(folder, "etcd", ETCD_ANSWERS)
    texts(folder, "fleet", FLEET_TEXTS)
    drawn_feeds(folder)
    listen(folder)
    crowdsec(folder)
    frame_filter(folder)
    flowspec(folder)
    bgp(folder)
    subprocess.run([sys.argv[2], os.path.join(folder, "corpus-seed")], check=True,
                   env=dict(os.environ, LLVM_PROFILE_FILE="/dev/null"))  # of a coverage build: nobody asks
    if len(sys.argv) > 3:
        with open(sys.argv[3], "w", encoding="ascii"):
            pass


if __name__ == "__main__":
    main()
