"""Where metrics are served: the policy's place or the command line's, IPv4 and IPv6, off; a place that is taken is no failed start
and no failed reload, and is had as soon as it is free; a reload moves the server. With seccomp that ends controld at a system call
it should not need."""

import http.client
import os
import socket
import subprocess

from weir_smoke import BUILD, Session, check, equal
from namespaces import free_port

LISTS = "lists:\n  - {name: c2, action: drop, entries: [203.0.113.7]}\n"


def write(session, listen=None):
    """The policy, with `metrics` when listen is something."""
    with open(session.path("weir.yaml"), "w", encoding="ascii") as file:
        file.write("version: 1\ntargets: []\n" + (f"metrics: {{listen: '{listen}'}}\n" if listen else "") + LISTS)


def place(session):
    return session.call("status")["metrics"]


def status_of(address, path="/", host=None):
    """HTTP's status of a page, or None: nobody answers."""
    name, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(name.strip("[]"), int(port), timeout=30)
    try:
        connection.request("GET", path, headers={"Host": host} if host else {})
        return connection.getresponse().status
    except ConnectionRefusedError:
        return None
    finally:
        connection.close()


def moves(session, first):
    second = f"127.0.0.1:{free_port()}"
    write(session, second)
    check(session.call("reload")["ok"], "a reload that moves it")
    equal(place(session), {"address": second, "error": ""}, "the place after a reload")
    equal((status_of(first), status_of(second)), (None, 200), "who answers after a reload")

    # The same port of every interface: the old socket has to go first.
    everywhere = "0.0.0.0:" + second.rpartition(":")[2]
    write(session, everywhere)
    check(session.call("reload")["ok"], "a reload to every interface")
    equal((place(session)["address"], status_of(second)), (everywhere, 200), "every interface")
    check("without a password" in session.log("controld"), "a place that others reach is warned of")

    # One that is taken: what is served stays, and says so, until it is free.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        third = f"127.0.0.1:{taken.getsockname()[1]}"
        write(session, third)
        check(session.call("reload")["ok"], "a reload to a place that is taken is none that failed")
        now = place(session)
        equal(now["address"], everywhere, "the place stays")
        check(third in now["error"] and "another program listens there" in now["error"], now)
        equal(status_of(everywhere.replace("0.0.0.0", "127.0.0.1")), 200, "it answers where it was")
        code, out, _ = session.controlctl("status")
        check(code == 0 and f"http://{everywhere}/metrics; cannot listen on {third}" in out, out)
    session.wait("the place that is free now", lambda: place(session) == {"address": third, "error": ""})
    equal(status_of(third), 200, "who answers there")

    write(session, "off")
    check(session.call("reload")["ok"], "a reload that turns it off")
    equal((place(session), status_of(third)), ({"address": "", "error": ""}, None), "off")
    check("metrics     off\n" in session.controlctl("status")[1], "status says off")

    if os.path.exists("/proc/net/if_inet6"):
        write(session, "[::1]:0")
        check(session.call("reload")["ok"], "a reload to IPv6")
        at = place(session)["address"]
        check(at.startswith("[::1]:") and not at.endswith(":0"), at)
        equal(status_of(at), 200, "IPv6")
        equal(status_of(at, host="evil.example.com"), 421, "another name")


with Session(BUILD) as session:
    write(session, "127.0.0.1:0")
    session.start_controld(session.path("weir.yaml"), targets=False, metrics=None)
    first = place(session)["address"]
    check(first.startswith("127.0.0.1:") and not first.endswith(":0"), first)
    equal((status_of(first), status_of(first, "/nothing")), (200, 404), "pages")
    moves(session, first)
    session.stop("controld")

    # A place that is taken when controld starts; a command line that comes before the policy.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        write(session, at)
        session.start_controld(session.path("weir.yaml"), targets=False, metrics=None)
        equal(place(session)["address"], "", "nothing is served")
        check("another program listens there" in place(session)["error"], place(session))
        check("metrics     NOT SERVED: " in session.controlctl("status")[1], "status says that nothing is served")
    session.wait("the place that is free now", lambda: place(session)["address"] == at)
    session.stop("controld")
    session.start_controld(session.path("weir.yaml"), targets=False, metrics="127.0.0.1:0")
    check(place(session)["address"] not in ("", at), "the command line comes first")
    session.stop("controld")
    session.start_controld(session.path("weir.yaml"), targets=False, metrics="off")
    equal((place(session), status_of(at)), ({"address": "", "error": ""}, None), "off by the command line")
    session.stop("controld")
    done = subprocess.run([os.path.join(BUILD, "control/controld"), "--metrics", "localhost:1"], capture_output=True, text=True,
                          timeout=60, check=False)
    equal(done.returncode, 2, "exit code of a wrong place")
    check("is no address" in done.stderr and "127.0.0.1:9617" in done.stderr, done.stderr)
