"""What can happen to a feed's file: each case changes it under a running controld, which must not unblock or block anything
without a word. Standard library only."""

import bz2
import gzip
import io
import json
import lzma
import os
import stat
import tarfile
import zipfile

HOSTS = 1000
OWN = "203.0.113.200"
STRANGERS = ("8.8.8.8", "1.1.1.1", "10.1.2.3", "127.0.0.1", "100.64.0.1", "224.0.0.1", "198.19.0.1", "198.18.0.2", OWN,
             "2001:db8::1", "2a00::1", "fe80::1")
POLICY = """version: 1
state_dir: {state}
targets: []
policy: {{own: [{own}]}}
filter: {{memory: {memory}}}
lists:
  - {{name: fed, action: drop, match: either, file: fed.txt}}
"""


def host(number):
    return f"198.18.{number // 100 + 10}.{number % 100 + 120}"  # three digits at its end: a cut makes another one


BASE = "".join(host(i) + "\n" for i in range(HOSTS))
PROBES = [host(i) for i in (*range(0, HOSTS, 53), HOSTS // 2, HOSTS - 1)] + list(STRANGERS)


def others(count, begin=100):
    return "".join(f"{begin + i // 65536}.{i // 256 % 256}.{i % 256}.7\n" for i in range(count))


def tar(text):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        info = tarfile.TarInfo("fed.txt")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
    return packed.getvalue()


def zipped(text):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("fed.txt", text)
    return packed.getvalue()


HALF = "".join(host(i) + "\n" for i in range(HOSTS // 2))
RAW = BASE.encode()

# Contents that the file has afterwards.
CONTENTS = {
    "empty": b"",
    "one empty line": b"\n",
    "comments alone": b"# the list is in maintenance\n; back soon\n",
    "half of it": HALF.encode(),
    "a third of it": BASE[:len(HALF) * 2 // 3 // 14 * 14].encode(),
    "cut inside of its last line": RAW[:-3],
    "without the end of its last line": RAW[:-1],
    "cut in the middle": RAW[:len(RAW) // 2 + 5],
    "gzip": gzip.compress(RAW),
    "xz": lzma.compress(RAW),
    "bzip2": bz2.compress(RAW),
    "zip": zipped(BASE),
    "zstd": b"\x28\xb5\x2f\xfd" + os.urandom(4000),
    "lz4": b"\x04\x22\x4d\x18" + os.urandom(4000),
    "tar": tar(RAW),
    "an error page": b"<!DOCTYPE html>\n<html><body><h1>503 Service Unavailable</h1></body></html>\n",
    "a page with the list in it": b"<html><pre>\n" + RAW + b"</pre></html>\n",
    "XML": b"<?xml version=\"1.0\"?>\n<list>" + RAW + b"</list>\n",
    "JSON": json.dumps([host(i) for i in range(HOSTS)]).encode(),
    "JSON lines": "".join(json.dumps({"ip": host(i)}) + "\n" for i in range(HOSTS)).encode(),
    "UTF-16": b"\xff\xfe" + BASE.encode("utf-16-le"),
    "UTF-16 without a mark": BASE.encode("utf-16-be"),
    "UTF-32": BASE.encode("utf-32"),
    "lines that end in CR": BASE.replace("\n", "\r").encode(),
    "a head, then lines that end in CR": b"# a list\n" + BASE.replace("\n", "\r").encode(),
    "CSV in quotes": "".join(f'"{host(i)}","scanner"\n' for i in range(HOSTS)).encode(),
    "all in one line, with commas": BASE.replace("\n", ",").encode(),
    "names instead of addresses": "".join(f"host{i}.example.net\n" for i in range(HOSTS)).encode(),
    "as much junk as list": (BASE + "junk\n" * HOSTS).encode(),
    "one address that broke": BASE.replace(host(HOSTS // 2), "198.18.256.1").encode(),
    "zeroes, as a crash leaves them": bytes(len(RAW)),
    "its second half zeroes": HALF.encode() + bytes(len(HALF)),
    "random bytes": os.urandom(20_000),
    "twenty times as much": (BASE + others(19 * HOSTS)).encode(),
    "six times as much": (BASE + others(5 * HOSTS)).encode(),
    "another list": others(HOSTS).encode(),
    "two halves of IPv4": (BASE + "0.0.0.0/1\n128.0.0.0/1\n").encode(),
    "64 parts of IPv4": (BASE + "".join(f"{i * 4}.0.0.0/6\n" for i in range(64))).encode(),
    "a quarter of IPv4": (BASE + "64.0.0.0/2\n").encode(),
    "a fiftieth of IPv4": (BASE + "8.0.0.0/6\n").encode(),
    "nearly all of IPv4": (BASE + "0.0.0.1-255.255.255.254\n").encode(),
    "all of IPv4": (BASE + "0.0.0.0/0\n").encode(),
    "two halves of IPv6": (BASE + "::/1\n8000::/1\n").encode(),
    "a private network": (BASE + "10.0.0.0/8\n").encode(),
    "this machine itself": (BASE + "127.0.0.0/8\n").encode(),
    "what is the operator's own": (BASE + OWN + "\n").encode(),
    "a link-local network": (BASE + "fe80::/10\n").encode(),
}


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    elif os.path.lexists(path):
        os.unlink(path)


def put(path, content):
    remove(path)
    with open(path, "wb") as file:
        file.write(content)


def sparse(path):
    put(path, RAW)
    os.truncate(path, 10 << 40)


def dangling(path):
    remove(path)
    os.symlink("nowhere", path)


def loop(path):
    remove(path)
    os.symlink(os.path.basename(path), path)


def folder(path):
    remove(path)
    os.mkdir(path)


def fifo(path):
    remove(path)
    os.mkfifo(path)


def device(path):
    remove(path)
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # zeroes without an end


FILES = {
    "missing": remove,
    "a folder": folder,
    "a pipe": fifo,
    "a link to nothing": dangling,
    "a link to itself": loop,
    "10 TiB, most of it a hole": sparse,
}
if os.getuid() == 0:
    FILES["a device"] = device


def changes():
    """[(name, function of the path)]"""
    return ([(name, lambda path, content=content: put(path, content)) for name, content in CONTENTS.items()]
            + list(FILES.items()))


def write_policy(path, memory="64MiB"):
    with open(path, "w", encoding="ascii") as file:
        state = os.path.join(os.path.dirname(path), "controld-state")  # a session's
        file.write(POLICY.format(own=OWN, memory=memory, state=state))


def verdicts(session):
    """What is blocked, of the probes, by source or destination."""
    answers = {key: session.call("explain", key=key) for key in PROBES}
    return {key: (answer["as_source"]["action"], answer["as_destination"]["action"]) for key, answer in answers.items()}


def is_told(answer, usual):
    """usual: how many warnings the policy itself has."""
    return bool(answer["refused"]) or answer["warnings"] > usual or not answer["ok"]


def run(session, say=lambda text: None):
    """Every change, and back. Returns [(name, changed, told, refused)]; the session has no controld yet."""
    feed, policy = session.path("fed.txt"), session.path("fed.yaml")
    put(feed, RAW)
    write_policy(policy)
    session.start_controld(policy, targets=False)
    good, usual = verdicts(session), session.call("reload")["warnings"]
    results = []
    for name, change in changes():
        logged = len(session.log("controld"))
        try:
            change(feed)
        except OSError as error:
            say(f"{name}: cannot be made here: {error}")
            continue
        answer = session.call("reload")
        now = verdicts(session)
        # By this reload, or by the one that the change itself caused, which may have come first.
        told = is_told(answer, usual) or f'text="{feed} ' in session.log("controld")[logged:]
        results.append((name, now != good, told, bool(answer["refused"])))
        put(feed, RAW)
        back = session.call("reload")
        if back["refused"]:
            back = session.call("accept", name="fed")
        if back["refused"] or not back["ok"] or verdicts(session) != good:
            raise ValueError(f"{name}: the mended feed is not taken: {back}")
    return results
