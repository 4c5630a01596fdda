"""Text of strangers that reaches a terminal, a log, a label or a page with a control, C1 or bidi character in it."""

import http.client
import os
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from figure import at_most
from session import START_SECONDS, Session

# In double quotes of YAML, and as it is.
QUOTED = ("\\e]0;P\\a\\e[31m", "x\\ry", "\\x7f", "\\x9b31m", "\\x85", "\\u061c", "\\u200e", "\\u202e", "\\u2066x\\u2069", "\\u2028")
RAW = ("\x1b]0;P\x07\x1b[31m", "x\ry", "\x7f", "\x9b31m", "\x85", "\u061c", "\u200e", "\u202e", "\u2066x\u2069", "\u2028")
BYTES = b"\x1b[31m\x07 \xc2\x9b31m \x9b31m \xe2\x80\xae \xe2\x81\xa6 \xd8\x9c \x7f \xff"

LISTS = "version: 1\nlists:\n  - {name: a, action: drop, "
# Where a policy may have such a text, at @.
POLICIES = {
    "key": 'version: 1\n"k@": 1\n',
    "version": 'version: "@"\n',
    "state_dir": 'version: 1\nstate_dir: "rel@"\n',
    "section": 'version: 1\nfilter: "@"\n',
    "number": 'version: 1\nfilter: {false_positive_rate: "@"}\n',
    "size": 'version: 1\nfilter: {memory: "@"}\n',
    "canary": 'version: 1\nfilter: {canaries: ["@"]}\n',
    "default": 'version: 1\npolicy: {default: "@"}\n',
    "tunnel": 'version: 1\npolicy: {tunnels: ["@"]}\n',
    "own": 'version: 1\npolicy: {own: ["@"]}\n',
    "target": 'version: 1\ntargets: [{dataplane: "a@"}, {dataplane: "a@"}, {xdp: {interfaces: ["e@"]}}]\n',
    "fetch": 'version: 1\nfetch: {proxy: "@", timeout: "@"}\n',
    "history": 'version: 1\nhistory: {keep: "@"}\n',
    "metrics": 'version: 1\nmetrics: {listen: "@"}\n',
    "capture": 'version: 1\ncapture: {filter: "tcp @"}\n',
    "fleet": 'version: 1\nfleet: {etcd: ["http://x@"], name: "@"}\n',
    "name": 'version: 1\nlists:\n  - {name: "a@", action: drop}\n',
    "action": 'version: 1\nlists:\n  - {name: a, action: "dr@op"}\n',
    "match": LISTS + 'match: "@"}\n',
    "boolean": LISTS + 'allow_any: "@"}\n',
    "entry": LISTS + 'entries: ["1.2.3.4@"]}\n',
    "entry map": LISTS + 'entries: [{src: 1.2.3.4, "@": 1}]}\n',
    "entry field": LISTS + 'entries: [{src: 1.2.3.4, proto: "@"}]}\n',
    "file": LISTS + 'file: "no@.txt"}\n',
    "url": LISTS + 'url: "ftp://x@/"}\n',
    "format": LISTS + 'file: x.txt, format: "@"}\n',
    "guard": LISTS + 'file: x.txt, guard: {max_shrink: "@"}}\n',
    "comment of a line": 'version: 1\nlistz: 1 # @\n',
    "plain scalar": 'version: 1\nlists:\n  - {name: a, action: @drop}\n',
}
FEED = (b"1.2.3.4 # ok\n" + BYTES + b"not an address\n5.6.7.8 ; comment " + BYTES + b"\n11.0.0.1 # " + BYTES + b"\nx\0y\n10.0.0.0/33 " + BYTES + b"\n")


def is_forbidden(character):
    """By its number, not by the table of the product. Bytes that are no UTF-8 are surrogates here; lines and tabs may be there."""
    code = ord(character)
    return ((code < 0x20 and character not in "\n\t") or 0x7f <= code < 0xa0 or code in (0x061c, 0x200e, 0x200f)
            or 0x2028 <= code <= 0x202e or 0x2066 <= code <= 0x2069 or 0xd800 <= code < 0xe000)


def found_in(text):
    return [f"{ord(character):#x}" for character in text.decode("utf-8", "surrogateescape") if is_forbidden(character)]


class Reader:
    """Reads what leaves, and keeps what should not have left."""

    def __init__(self, build):
        self.program = os.path.join(build, "control/controlctl")
        self.looks = 0
        self.bad = []  # (place, characters)

    def take(self, place, text):
        self.looks += 1
        if characters := found_in(text):
            self.bad.append((place, characters))

    def run(self, place, *arguments):
        done = subprocess.run([self.program, *arguments], capture_output=True, stdin=subprocess.DEVNULL, timeout=START_SECONDS, check=False)
        self.take(place, done.stdout)
        self.take(f"{place}, stderr", done.stderr)


def put(path, text):
    with open(path, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def policies(folder):
    """(name, path) of each policy with each text in it."""
    path = os.path.join(folder, "bad.yaml")
    for name, text in POLICIES.items():
        for escape in QUOTED:
            put(path, text.replace("@", escape))
            yield f"{name}, {escape}", path
        for character in RAW:
            put(path, text.replace("@", character))
            yield f"{name}, {ascii(character)}", path
        put(path, text.encode().replace(b"@", BYTES))
        yield f"{name}, bytes", path


def asks(reader, session):
    socket = ("--socket", session.path("controld.sock"))
    nasty = "".join(RAW)
    for json in ((), ("--json",)):
        for command in (("list",), ("list", "jail"), ("lists",), ("feeds",), ("status",), ("history",), ("stats",), ("shapes",), ("export",), ("export", "jail"),
                        ("explain", "198.51.100.1"), ("explain", "198.51.100.2"), ("explain", "5.6.7.8"), ("explain", "11.0.0.1"), ("explain", "9.9.9.9"),
                        ("explain", "1.2.3.4" + nasty), ("test", "src " + nasty), ("explain", "--packet", nasty), ("explain", "1.1.1.1", "--at", nasty),
                        ("add", nasty), ("add", "1.1.1.1", "--list", nasty), ("del", nasty), ("plan", nasty), ("shadow", nasty), ("check", nasty), (nasty,),
                        ("--" + nasty,), ("status", "--" + nasty), ("restore", nasty), ("feeds", "--accept", nasty), ("rollback", nasty),
                        ("fleet", "status", "--etcd", "http://127.0.0.1:1", "--name", nasty), ("fleet", "status", "--etcd", nasty, "--name", "edge"),
                        ("explain", "--pcap", nasty), ("top", "--once"), ("drops", "--filter", nasty)):
            reader.run("controlctl " + ascii(" ".join(command)) + " ".join(json), *command, *json, *socket)


def pages(reader, session):
    name, _, port = session.call("status")["metrics"]["address"].rpartition(":")
    for path in ("/", "/metrics", "/explain?key=198.51.100.2", "/explain?key=%1b%c2%9b%e2%80%ae", "/%1b%c2%9b"):
        connection = http.client.HTTPConnection(name.strip("[]"), int(port), timeout=START_SECONDS)
        connection.request("GET", path)
        reader.take(f"page {path}", connection.getresponse().read())
        connection.close()


def escapes(build, folder):
    """Characters of foreign text that reach a terminal, the log, labels or pages; (figures, what was found where)."""
    reader = Reader(build)
    for name, path in policies(folder):
        reader.run(f"check, {name}", "check", path)
        reader.run(f"check --json, {name}", "check", path, "--json")
    with Session(build) as session:
        put(session.path("feed.txt"), FEED)
        policy = session.path("weir.yaml")
        comment = "".join(QUOTED)
        good = ("version: 1\ntargets: []\nlists:\n  - {name: jail, action: drop, dynamic: true}\n  - {name: feed, action: drop, file: feed.txt, comment: \""
                f"{comment}\"}}\n  - {{name: written, action: drop, entries: [{{entry: 9.9.9.9, comment: \"{comment}\"}}]}}\n")
        put(policy, good)
        reader.run("check of a feed", "check", policy)
        session.start_controld(policy, targets=False, metrics="127.0.0.1:0")
        for number, text in enumerate(("".join(RAW), "x\n\0y", "<b>\"'&")):
            session.call("add", name="jail", entries=[f"198.51.100.{number + 1}"], comment=text)
        session.call("".join(RAW))
        asks(reader, session)
        for name, path in policies(session.folder):
            with open(path, "rb") as file:
                put(policy, file.read())
            reader.run(f"reload, {name}", "reload", "--socket", session.path("controld.sock"))
        asks(reader, session)
        pages(reader, session)
        with open(session.path("controld.log"), "rb") as file:
            reader.take("log", file.read())
    count = sum(len(characters) for _, characters in reader.bad)
    note = f"{reader.looks} texts" + "".join(f"; {place}: {', '.join(characters[:3])}" for place, characters in reader.bad[:5])
    return [at_most("mended.escapes", count, 0, "characters", note)], reader.bad


if __name__ == "__main__":
    import tempfile
    with tempfile.TemporaryDirectory() as place_for_files:
        for figure in escapes(sys.argv[1], place_for_files)[0]:
            print(figure.line())
