"""Feeds with an url: from a real nginx (304, gzip, TLS with an authority of its own, a wrong certificate), and from a server
that lies in every way. Whatever it says, what was enforced stays enforced, and `controlctl feeds` says why; who fetches
has no rights; how each stands survives restarts."""

import contextlib
import glob
import os
import shutil
import socket
import subprocess
import time

from weir_smoke import BUILD, Session, check, controlctl, equal, skip
from namespaces import free_port
from until import until
import lying_server as lies

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
if not os.path.exists(NGINX) or not shutil.which("openssl"):
    skip("program: nginx and openssl serve the feeds")
HOSTS = [f"198.51.{n >> 8}.{n & 255}\n".encode() for n in range(1000)]
GOOD = b"".join(HOSTS)
POLICY = """version: 1
fetch: {{timeout: 2s, max_size: 1MiB, user_agent: weir-test{more}}}
targets: []
lists:
{lists}"""


def write(path, data, mode="w"):
    with open(path, mode) as file:
        file.write(data)


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True)


def certificates(folder):
    """An authority, and what it says of localhost; another one; what the first says of somebody else."""
    for name in ("ca", "other-ca"):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem")
    for name, ca, host in (("right", "ca", "localhost"), ("stranger", "other-ca", "localhost"), ("misnamed", "ca", "example.net")):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={host}", "-keyout",
                f"{folder}/{name}.key", "-out", f"{folder}/{name}.csr")
        write(f"{folder}/{name}.ext", f"subjectAltName=DNS:{host}\n")
        openssl("x509", "-req", "-in", f"{folder}/{name}.csr", "-CA", f"{folder}/{ca}.pem", "-CAkey", f"{folder}/{ca}.key",
                "-CAcreateserial", "-days", "2", "-extfile", f"{folder}/{name}.ext", "-out", f"{folder}/{name}.pem")


@contextlib.contextmanager
def nginx(folder):
    """Serves folder/www; yields its ports."""
    os.makedirs(f"{folder}/www")
    os.chmod(folder, 0o755)
    certificates(folder)
    ports = {name: free_port() for name in ("plain", "right", "stranger", "misnamed")}
    servers = "".join(
        f"server {{ listen 127.0.0.1:{port}{'' if name == 'plain' else ' ssl'}; root {folder}/www; default_type text/plain;"
        + ("" if name == "plain" else f" ssl_certificate {folder}/{name}.pem; ssl_certificate_key {folder}/{name}.key;")
        + " location /back { return 302 http://127.0.0.1:" + str(ports["plain"]) + "/feed.txt; }"
        + " }\n" for name, port in ports.items())
    temporary = " ".join(f"{kind}_temp_path {folder}/tmp-{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    write(f"{folder}/nginx.conf", f"daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; user root; events {{}}\n"
          f"http {{ gzip on; gzip_types text/plain; gzip_min_length 1; access_log {folder}/access.log 'combined'; log_format more "
          f"'$status $request_uri $sent_http_content_encoding'; access_log {folder}/more.log more; {temporary}\n{servers} }}\n")
    process = subprocess.Popen([NGINX, "-p", folder, "-c", f"{folder}/nginx.conf"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def answers():
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", ports["plain"]), 1).close()
                return True

        until("nginx to answer", answers, ended=lambda: "it ended" if process.poll() is not None else "")
        yield ports
    finally:
        process.terminate()
        process.wait()


def put(path, data):
    write(path + ".new", data, "wb")
    os.rename(path + ".new", path)


class Rig:
    def __init__(self, session):
        self.session = session
        self.policy = session.path("weir.yaml")

    def start(self, lists, more="", expect=True):
        write(self.policy, POLICY.format(lists="".join(f"  - {{name: {name}, action: drop, url: \"{url}\"}}\n" for name, url in lists), more=more))
        if expect:
            self.session.start_controld(self.policy, targets=False)

    def fetch(self, name):
        """What went wrong; empty: nothing."""
        return self.session.call("fetch", name=name).get("error", "")

    def feed(self, name):
        return next(feed for feed in self.session.call("feeds")["feeds"] if feed["list"] == name)

    def is_dropped(self, key):
        return self.session.call("explain", key=key)["as_source"]["action"] == "drop"

    def all_there(self):
        return self.is_dropped("198.51.0.0") and self.is_dropped("198.51.3.231")


def from_nginx(rig, ports, folder):
    session = rig.session
    feed = f"{folder}/www/feed.txt"
    put(feed, GOOD)
    # An authority that nobody knows: the policy has no content to begin with, and says so.
    rig.start([("fed", f"https://localhost:{ports['right']}/feed.txt")], expect=False)
    code, out, err = session.controlctl("check", rig.policy)
    check("was not fetched yet" in out + err and code == 0, f"check of what was not fetched: {code}\n{out}{err}")
    controld = subprocess.run([os.path.join(BUILD, "control/controld"), "--config", rig.policy, "--socket", session.path("controld.sock"),
                               "--state-dir", session.state_path("controld"), "--metrics", "off"], capture_output=True, text=True, timeout=60)
    equal(controld.returncode, 1, "exit of a first start without its feed")
    check("was not fetched yet: " in controld.stderr and "certificate" in controld.stderr, controld.stderr)

    rig.start([("fed", f"https://localhost:{ports['right']}/feed.txt"), ("plain", f"http://127.0.0.1:{ports['plain']}/feed.txt")],
              f", ca_file: {folder}/ca.pem")
    check(rig.all_there(), "what was fetched first is enforced")
    one = rig.feed("fed")
    check(one["state"] == "good" and one["entries"] == 1000, one)
    equal(one["fetch"]["bytes"], len(GOOD), "bytes that were fetched")
    check(one["fetch"]["fetched_at"] > 0 and one["fetch"]["next_at"] > time.time() + 3000, one)
    with open(f"{folder}/more.log", encoding="ascii") as log:
        check("200 /feed.txt gzip" in log.read(), "nginx sent it packed")

    # Nothing changed: 304, and nothing is published.
    before = session.call("status")["generation"]
    for name in ("fed", "plain"):
        equal(rig.fetch(name), "", f"a fetch of {name}")
    with open(f"{folder}/more.log", encoding="ascii") as log:
        equal(log.read().count("304 /feed.txt"), 2, "answers of nginx that nothing changed")
    equal(session.call("status")["generation"], before, "generation when nothing changed")
    changed_at = rig.feed("fed")["fetch"]["changed_at"]

    # It changed: enforced by itself.
    time.sleep(1.1)
    put(feed, GOOD + b"203.0.113.9\n")
    equal(rig.fetch("fed"), "", "a fetch of what changed")
    session.wait("what changed to be enforced", lambda: rig.is_dropped("203.0.113.9"), 20)
    check(rig.feed("fed")["fetch"]["changed_at"] > changed_at, "when it changed")
    code, out, err = session.controlctl("feeds")
    check("https://localhost:" in out and code == 0, out + err)

    # What it knows survives a kill: it is not asked again before its time, and then with the tag it had.
    session.kill("controld")
    session.start_controld(rig.policy, targets=False)
    session.wait("the state to be read", lambda: rig.feed("fed")["fetch"]["fetched_at"] > 0, 20)
    check(rig.all_there() and rig.feed("fed")["fetch"]["next_at"] > time.time() + 2000, "state after a restart")
    equal(rig.fetch("fed"), "", "a fetch after a restart")
    with open(f"{folder}/more.log", encoding="ascii") as log:
        equal(log.read().count("304 /feed.txt"), 3, "answers that nothing changed, after a restart")
    # A damaged state, and a file that is gone: asked for whole, and what is enforced stays.
    session.kill("controld")
    states = glob.glob(session.state_path("controld") + "/feeds/fed-*.state")
    equal(len(states), 1, "state files of one feed")
    write(states[0], "weir fetch state 1\nurl x\n")
    os.remove(states[0].removesuffix(".state"))
    session.start_controld(rig.policy, targets=False)
    check(rig.all_there() and "it is damaged" in session.log("controld"), "verdicts after a restart without the file")
    session.wait("the file to be fetched again", lambda: rig.feed("fed")["state"] == "good", 20)

    # Certificates that say something else, and a way back to what anybody can change.
    for name, port, path, error in (("stranger", "stranger", "feed.txt", "certificate"), ("misnamed", "misnamed", "feed.txt", "no alternative certificate"),
                                    ("back", "right", "back", "Protocol")):
        session.stop("controld")
        write(rig.policy, POLICY.format(lists=f"  - {{name: fed, action: drop, url: \"https://localhost:{ports[port]}/{path}\"}}\n",
                                        more=f", ca_file: {folder}/ca.pem"))
        session.start_controld(rig.policy, targets=False)
        check(rig.all_there(), f"{name}: another url of a list that had content keeps that")
        told = rig.fetch("fed")
        check(error.lower() in told.lower(), f"{name}: {told}")
        check(rig.feed("fed")["state"] == "refused" and error.lower() in rig.feed("fed")["fetch"]["error"].lower(), rig.feed("fed"))
        check(rig.all_there(), f"{name}: what was enforced stays")
    session.stop("controld")


def every_lie(server, other):
    """name -> (what it says, why it is not fetched, or None; why its guard refuses it, or None)"""
    third, most = GOOD[: len(GOOD) // 3], GOOD[:-3]
    return {
        "cut off": (lies.cut_off(GOOD), "bytes", None),
        "cut in a chunk": (lies.cut_chunks(GOOD), "transfer closed", None),
        "it stalls": (lies.stalls(GOOD), "too slow", None),
        "it says nothing": (lies.silent, "too slow", None),
        "it drips": (lies.drips, "too slow", None),
        "500": (lies.status(500), "the server answers 500", None),
        "404": (lies.status(404), "the server answers 404", None),
        "204": (lies.status(204), "the server answers 204", None),
        "206": (lies.status(206), "the server answers 206", None),
        "in circles": (lies.redirects(f"{server.url}/feed"), "redirects", None),
        "to a file": (lies.redirects("file:///etc/passwd"), "protocol", None),
        "to ftp": (lies.redirects("ftp://127.0.0.1/feed"), "protocol", None),
        "to nowhere": (lies.redirects("http://"), "url", None),
        "300 without a way": (lies.status(300), "the server answers 300", None),
        "too large": (lies.whole(GOOD * 100), "larger than 1048576 bytes", None),
        "10 TiB promised": (lies.huge_promise, "larger than 1048576 bytes", None),
        "endless": (lies.endless, "larger than 1048576 bytes", None),
        "a bomb": (lies.bomb, "larger than 1048576 bytes", None),
        "gzip that is none": (lies.no_gzip(GOOD), "unencoding", None),
        "an endless header": (lies.endless_header, "header", None),
        "no HTTP": (lies.no_http, "http/0.9", None),
        "it hangs up": (lies.resets, "", None),
        "an error page with 200": (lies.whole(b"<!DOCTYPE html>\n<html><body>We are sorry</body></html>\n"), None, "is an HTML page"),
        "nothing with 200": (lies.whole(b""), None, "is empty"),
        "a third, and its length": (lies.whole(third), None, "shrank from 1000 entries"),
        "most of it, and no length": (lambda handler: (handler.head(), handler.raw(most)), None, "ends inside of line"),
        "a tenth of its lines": (lies.whole(b"".join(HOSTS[:100])), None, "shrank from 1000 entries to 100"),
        "half of its gzip": (lies.half_gzip(GOOD), "", ""),
        "everything": (lies.whole(GOOD + b"0.0.0.0/1\n128.0.0.0/1\n"), None, "covers"),
    }


def from_a_liar(rig):
    session = rig.session
    server, other = lies.LyingServer(), lies.LyingServer()
    server.says = other.says = lies.whole(GOOD, ETag='"good"')
    rig.start([("fed", f"http://user:secret@127.0.0.1:{server.port}/feed")])
    check(rig.all_there(), "what was fetched first is enforced")
    equal(server.asked[0][1].get("authorization", "")[:6], "Basic ", "who knows user and password")
    equal(server.asked[0][1]["user-agent"], "weir-test", "User-Agent")
    check("secret" not in session.log("controld") and "secret" not in str(session.call("feeds")), "the password is shown")
    for name, (says, error, refused) in every_lie(server, other).items():
        server.says = says
        told = rig.fetch("fed")
        feed = rig.feed("fed")
        if told:
            check(error is not None and error.lower() in told.lower(), f"{name}: {told!r}, expected {error!r}")
            check(feed["fetch"]["failures"] >= 1 and feed["fetch"]["error"] in told, f"{name}: {feed}")
            check(time.time() + 10 < feed["fetch"]["next_at"] < time.time() + 3700, f"{name}: {feed}")
        else:
            check(refused is not None, f"{name}: it was fetched")
            session.wait(f"{name} to be refused: {refused}", lambda: refused in rig.feed("fed").get("reason", "-"), 20)
        check(rig.all_there() and not rig.is_dropped("203.0.113.9"), f"{name}: what was enforced stays enforced")
        check(not rig.is_dropped("8.8.8.8"), f"{name}: what was not blocked is not")
        code, out, err = session.controlctl("feeds")
        check(code == 0 and (told.split("not fetched: ")[-1] in out if told else "REFUSED" in out), f"{name}: {out}{err}")
    check("secret" not in session.log("controld") and "secret" not in str(session.call("status")), "the password is shown by diagnostics")
    # It may put us off.
    server.says = lies.status(429, Retry_After="7200")
    check("the server answers 429" in rig.fetch("fed"), "429")
    check(rig.feed("fed")["fetch"]["next_at"] >= time.time() + 7000, f"429 with Retry-After: {rig.feed('fed')}")
    server.says = lies.status(503, Retry_After=time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 10_000)))
    check("the server answers 503" in rig.fetch("fed"), "503")
    check(rig.feed("fed")["fetch"]["next_at"] >= time.time() + 9000, f"503 with Retry-After: {rig.feed('fed')}")
    # A lie about what we have: 304 to who did not ask for it is none of our feed.
    # To another host, without user and password; a tag that no request could hold.
    server.says = lies.redirects(f"{other.url}/elsewhere", 301)
    other.says = lies.whole(GOOD + b"203.0.113.9\n", ETag='"' + "x" * 5000 + '"')
    equal(rig.fetch("fed"), "", "a fetch that leads to another host")
    check(other.asked and "authorization" not in other.asked[-1][1], "another host is told user and password")
    session.wait("what was fetched from there", lambda: rig.is_dropped("203.0.113.9"), 20)
    equal(rig.feed("fed")["state"], "good", "state of a mended feed")
    equal(rig.feed("fed")["fetch"]["failures"], 0, "failures of a mended feed")
    equal(rig.fetch("fed"), "", "a fetch of the same")
    check("if-none-match" not in other.asked[-1][1], "the tag that is too long")

    # Who fetches has no rights, and ends with controld.
    server.says = lies.silent
    call = socket.socket(socket.AF_UNIX)
    call.connect(session.path("controld.sock"))
    call.sendall(b'{"command":"fetch","name":"fed"}\n')

    def fetchers(parent):
        for folder in glob.glob("/proc/[0-9]*"):
            with contextlib.suppress(OSError):
                with open(folder + "/comm", encoding="ascii", errors="replace") as comm:
                    if comm.read() == "weir-fetch\n" and session_of(folder) == parent:
                        yield folder

    def session_of(folder):
        with open(folder + "/stat", encoding="ascii", errors="replace") as stat:
            return int(stat.read().rpartition(")")[2].split()[3])

    session.wait("a process that fetches", lambda: list(fetchers(session.controld.pid)))

    def rights():
        """The rights of a process that fetches, once it has its filter of system calls."""
        for folder in fetchers(session.controld.pid):
            with contextlib.suppress(OSError), open(folder + "/status", encoding="ascii", errors="replace") as file:
                fields = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
                if fields.get("Seccomp", "").strip() == "2":
                    return fields

    fields = until("one that fetches, with its filter of system calls", rights)
    equal((int(fields["CapPrm"], 16), int(fields["CapEff"], 16), fields["NoNewPrivs"]), (0, 0, "1"), "rights of who fetches")
    equal(fields["Seccomp"], "2", "filter of system calls of who fetches")
    if os.geteuid() == 0:
        equal(fields["Uid"].split()[0], "65534", "user of who fetches")
    pid = session.controld.pid
    session.kill("controld")
    session.controld = None
    until("nobody to fetch after controld is gone", lambda: not list(fetchers(pid)))

    # Through a proxy, which is asked for the whole url; the environment's is not.
    server.says = lies.whole(GOOD + b"203.0.113.10\n")
    session.environment["http_proxy"] = other.url
    asked = len(other.asked)
    rig.start([("fed", "http://feeds.example/drop.txt")], f", proxy: \"{server.url}\"")
    session.wait("what came through the proxy", lambda: rig.is_dropped("203.0.113.10"), 20)
    equal(server.asked[-1][0], "http://feeds.example/drop.txt", "what the proxy is asked for")
    equal(len(other.asked), asked, "requests of the environment's proxy")
    return len(every_lie(server, other))


with Session(BUILD) as first, nginx(first.path("nginx")) as served:
    os.chmod(first.folder, 0o755)
    from_nginx(Rig(first), served, first.path("nginx"))
with Session(BUILD) as second:
    count = from_a_liar(Rig(second))
print(f"nginx, and {count} lies")
