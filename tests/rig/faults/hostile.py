"""What tests/hostile sends to the running programs: variants of snapshots, messages, requests and answers. A program that
ends, or that answers no more, has crashed."""

import contextlib
import json
import os
import subprocess

from capture import read_capture
from rig import say
from samples import make_samples
from session import Memory, Session, SessionError, tail

PROGRAM = "tests/hostile/hostile"
ENFORCERS = 200


def send(build, *arguments):
    """What it printed at its end: {"sent", "taken", "refused", ...}."""
    done = subprocess.run([os.path.join(build, PROGRAM), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=3600)
    lines = done.stdout.splitlines()
    if not lines or not lines[-1].startswith("{"):
        return {"sent": 0, "taken": 0, "refused": 0, "problem": f"hostile ended with {done.returncode}: {tail(done.stderr)}"}
    return json.loads(lines[-1])


def survived(session, name, result):
    """The result, with the crash of the program it was sent to, if there was one."""
    process = getattr(session, name)
    code = process.poll()
    result["crashes"] = int(code is not None or "problem" in result)
    if result["crashes"]:
        say(f"hostile: {name} {'answers no more' if code is None else f'ended with {code}'}: {result.get('problem', '')}\n"
            f"{tail(session.log(name))}")
    return result


@contextlib.contextmanager
def dataplane(build):
    """A data plane under packets, without a controld."""
    with Session(build) as session:
        make_samples(session.folder, flows=1000, frames=5000)
        capture = read_capture(session.path("capture.pcap"))
        session.start_dataplane("forward: hairpin\nports: [{port: 0, queues: 1}]",
                                ["net_pcap0,rx_pcap=capture.pcap,infinite_rx=1"], 1,
                                Memory(len(capture.frames) + 2048, capture.longest()), extra=())
        yield session


def snapshots_to_dataplane(build, count, seed=1):
    with dataplane(build) as session:
        return survived(session, "dataplane",
                        send(build, "snapshots", session.path("dataplane.sock"), "--count", count, "--seed", seed))


def snapshots_to_xdp(build, count, seed=2):
    """In the process of the program itself, so that its end is the crash. Needs root."""
    result = send(build, "xdp", "--count", count, "--seed", seed)
    result["crashes"] = int("problem" in result)
    if result["crashes"]:
        say(f"hostile: XDP: {result['problem']}")
    return result


def hand_made(build, *arguments):
    """The rows of the kinds that were made by hand: what the validator says, how many steps what it takes costs, and, of an
    enforcer, what that says."""
    result = send(build, "kinds", *arguments)
    result.setdefault("kinds", [])
    return result


def kinds_to_dataplane(build):
    with dataplane(build) as session:
        return survived(session, "dataplane", hand_made(build, session.path("dataplane.sock")))


def kinds_to_xdp(build):
    """Needs root."""
    result = hand_made(build, "--xdp")
    result["crashes"] = int("problem" in result)
    return result


def messages_to_dataplane(build, count, seed=3):
    with dataplane(build) as session:
        return survived(session, "dataplane",
                        send(build, "messages", session.path("dataplane.sock"), "--count", count, "--seed", seed))


def write_policy(session):
    with open(session.path("weir.yaml"), "w", encoding="utf-8") as policy:
        policy.write("version: 1\nlists:\n  - {name: l1, action: drop, entries: [203.0.113.7, '203.0.113.8:443']}\n")
    return session.path("weir.yaml")


def requests_to_controld(build, count, seed=4):
    with Session(build) as session:
        session.start_controld(write_policy(session))  # its data plane is away
        return survived(session, "controld",
                        send(build, "requests", session.path("controld.sock"), "--count", count, "--seed", seed))


def answers_to_controld(build, count, seed=5):
    with Session(build) as session:
        liars = subprocess.Popen([os.path.join(build, PROGRAM), "answers", session.folder, "--count", str(count), "--seed",
                                  str(seed), "--enforcers", str(ENFORCERS)], stdout=subprocess.PIPE, text=True)
        try:
            if liars.stdout.readline() != "ready\n":
                raise SessionError("hostile answers did not start")
            session.start_controld(write_policy(session), targets=False, extra=[
                word for number in range(ENFORCERS) for word in ("--target", session.path(f"{number}.sock"))])
            result = json.loads(liars.communicate(timeout=3600)[0].splitlines()[-1])
        finally:
            liars.kill()
        if "problem" not in result and "generation" not in session.call("status"):
            result["problem"] = "afterwards: no status"
        return survived(session, "controld", result)
