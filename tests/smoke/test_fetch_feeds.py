"""Feeds with a url: from a real nginx (304, gzip, TLS with an authority of its own, wrong certificates), and from a server that lies.
The last good feed stays enforced, and `controlctl feeds` says why; the process that fetches has no privileges."""

import contextlib
import glob
import os
import shutil
import socket
import subprocess
import time

import pytest

from weir_smoke import BUILD, needs_programs, read, write
import lying_server as lies
from namespaces import free_port
from until import until

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
HOSTS = [f"198.51.{n >> 8}.{n & 255}\n".encode() for n in range(1000)]
GOOD = b"".join(HOSTS)
POLICY = """version: 1
fetch: {{timeout: {timeout}, max_size: 1MiB, user_agent: weir-test{more}}}
targets: []
lists:
{lists}"""


class Fetching:
    """A session whose lists have urls."""

    def __init__(self, session):
        self.session = session

    def write_policy(self, more="", timeout="30s", **urls):
        lists = "".join(f"  - {{name: {name}, action: drop, url: \"{url}\"}}\n" for name, url in urls.items())
        return write(self.session.folder, "weir.yaml", POLICY.format(lists=lists, more=more, timeout=timeout))

    def start(self, *more, **settings):
        self.session.start_controld(self.write_policy(*more, **settings), targets=False)

    def fetch(self, name="fed"):
        """The error; empty: none."""
        return self.session.call("fetch", name=name).get("error", "")

    def feed(self):
        return next(feed for feed in self.session.call("feeds")["feeds"] if feed["list"] == "fed")

    def state(self):
        return self.feed()["fetch"]

    def is_dropped(self, key):
        return self.session.call("explain", key=key)["as_source"]["action"] == "drop"

    def all_there(self):
        return self.is_dropped("198.51.0.0") and self.is_dropped("198.51.3.231")

    def wait_dropped(self, key):
        self.session.wait(f"{key} to be dropped", lambda: self.is_dropped(key))


@pytest.fixture
def fetching(session):
    os.chmod(session.folder, 0o755)  # the process that fetches and nginx's have other users
    return Fetching(session)


# --- nginx ---

needs_nginx = pytest.mark.skipif(not os.path.exists(NGINX), reason="package: no nginx: scripts/setup test installs it")
needs_openssl = needs_programs("openssl")


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def make_certificates(folder):
    """Two authorities. Servers: `right`; `stranger`, by the other authority; `misnamed`, for another host."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    for name in ("ca", "other-ca"):
        at = f"{folder}/{name}"
        openssl("req", "-x509", *key, "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{at}.key", "-out", f"{at}.pem")
    for name, ca, host in (("right", "ca", "localhost"), ("stranger", "other-ca", "localhost"), ("misnamed", "ca", "example.net")):
        at = f"{folder}/{name}"
        write(folder, f"{name}.ext", f"subjectAltName=DNS:{host}\n")
        openssl("req", *key, "-subj", f"/CN={host}", "-keyout", f"{at}.key", "-out", f"{at}.csr")
        openssl("x509", "-req", "-in", f"{at}.csr", "-CA", f"{folder}/{ca}.pem", "-CAkey", f"{folder}/{ca}.key", "-CAcreateserial",
                "-days", "2", "-extfile", f"{at}.ext", "-out", f"{at}.pem")


class Nginx:
    """Serves www/feed.txt by plain HTTP and with each certificate; /back redirects to plain HTTP."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(f"{folder}/www")
        make_certificates(folder)
        self.ports = {name: free_port() for name in ("plain", "right", "stranger", "misnamed")}
        self.put(GOOD)
        servers = "".join(
            f"server {{ listen 127.0.0.1:{port}{'' if name == 'plain' else ' ssl'}; root {folder}/www; default_type text/plain;"
            + ("" if name == "plain" else f" ssl_certificate {folder}/{name}.pem; ssl_certificate_key {folder}/{name}.key;")
            + f" location /back {{ return 302 {self.url('plain')}; }} }}\n" for name, port in self.ports.items())
        temporary = " ".join(f"{kind}_temp_path {folder}/tmp-{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        write(folder, "nginx.conf", f"daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; user root; events {{}}\n"
              "http { gzip on; gzip_types text/plain; gzip_min_length 1; log_format short '$status $request_uri "
              f"$sent_http_content_encoding'; access_log {folder}/access.log short; {temporary}\n{servers} }}\n")
        self.process = subprocess.Popen([NGINX, "-p", folder, "-c", f"{folder}/nginx.conf"], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

    def url(self, name="right", path="feed.txt"):
        scheme, host = ("http", "127.0.0.1") if name == "plain" else ("https", "localhost")
        return f"{scheme}://{host}:{self.ports[name]}/{path}"

    def put(self, data):
        with open(f"{self.folder}/www/feed.new", "wb") as file:
            file.write(data)
        os.rename(f"{self.folder}/www/feed.new", f"{self.folder}/www/feed.txt")

    def answers(self):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.ports["plain"]), 1).close()
            return True

    def wait_logged(self, line, times=1):
        """nginx writes a line after the answer."""
        until(f"{times} lines {line!r} in the log", lambda: read(f"{self.folder}/access.log").decode().count(line) == times)

    def trusted(self):
        """More of `fetch:`."""
        return f", ca_file: {self.folder}/ca.pem"

    def __enter__(self):
        until("nginx to answer", self.answers, ended=lambda: "it ended" if self.process.poll() is not None else "")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


@pytest.fixture
def nginx(session, fetching):
    with Nginx(session.path("nginx")) as one:
        yield one


@needs_nginx
@needs_openssl
def test_a_first_start_needs_the_feed(session, fetching, nginx):
    policy = fetching.write_policy(fed=nginx.url())  # nobody trusts the authority
    code, out, err = session.controlctl("check", policy)
    assert code == 0 and "was not fetched yet" in out + err, f"check: {code}\n{out}{err}"
    controld = subprocess.run([os.path.join(BUILD, "control/controld"), "--config", policy, "--socket", session.path("controld.sock"),
                               "--state-dir", session.state_path("controld"), "--metrics", "off"],
                              capture_output=True, text=True, timeout=60)
    assert controld.returncode == 1, "exit code of a first start without its feed"
    assert "was not fetched yet: " in controld.stderr and "certificate" in controld.stderr, controld.stderr


@needs_nginx
@needs_openssl
def test_a_feed_is_fetched_again_when_it_changed(session, fetching, nginx, clock):
    fetching.start(nginx.trusted(), fed=nginx.url(), plain=nginx.url("plain"))
    assert fetching.all_there(), "what was fetched first is enforced"
    feed = fetching.feed()
    assert (feed["state"], feed["entries"], feed["fetch"]["bytes"]) == ("good", 1000, len(GOOD)), feed
    assert feed["fetch"]["fetched_at"] > 0 and feed["fetch"]["next_at"] > feed["fetch"]["fetched_at"] + 3000, feed
    nginx.wait_logged("200 /feed.txt gzip", 2)

    before = session.call("status")["generation"]
    for name in ("fed", "plain"):
        assert fetching.fetch(name) == "", f"a fetch of {name}"
    nginx.wait_logged("304 /feed.txt", 2)  # nothing changed
    assert session.call("status")["generation"] == before, "generation when nothing changed"

    clock.pass_time(2)  # times are whole seconds
    nginx.put(GOOD + b"203.0.113.9\n")
    assert fetching.fetch() == "", "a fetch of what changed"
    fetching.wait_dropped("203.0.113.9")
    assert fetching.state()["changed_at"] > feed["fetch"]["changed_at"], "when it changed"
    code, out, err = session.controlctl("feeds")
    assert code == 0 and "https://localhost:" in out, out + err


@needs_nginx
@needs_openssl
def test_the_state_of_a_feed_survives_a_kill(session, fetching, nginx):
    def times():
        return fetching.state()["fetched_at"], fetching.state()["next_at"]

    fetching.start(nginx.trusted(), fed=nginx.url())
    before = times()
    session.kill("controld")
    fetching.start(nginx.trusted(), fed=nginx.url())
    session.wait("the state to be read", lambda: fetching.state()["fetched_at"] > 0)
    assert fetching.all_there() and times() == before, "a restart fetches nothing before its time"
    assert fetching.fetch() == "", "a fetch after a restart"
    nginx.wait_logged("304 /feed.txt")  # it sends the tag

    session.kill("controld")
    state, = glob.glob(session.state_path("controld") + "/feeds/fed-*.state")
    write(session.folder, state, "weir fetch state 1\nurl x\n")
    os.remove(state.removesuffix(".state"))
    fetching.start(nginx.trusted(), fed=nginx.url())
    assert fetching.all_there() and "it is damaged" in session.log("controld"), "a restart without the file, and with a damaged state"
    session.wait("the file to be fetched again", lambda: fetching.feed()["state"] == "good")


@needs_nginx
@needs_openssl
def test_an_untrusted_way_is_refused(session, fetching, nginx):
    fetching.start(nginx.trusted(), fed=nginx.url())
    for server, path, error in (("stranger", "feed.txt", "certificate"), ("misnamed", "feed.txt", "no alternative certificate"),
                                ("right", "back", "protocol")):
        session.stop("controld")
        fetching.start(nginx.trusted(), fed=nginx.url(server, path))
        assert fetching.all_there(), f"{server} {path}: a list keeps its content when its url changes"
        told, feed = fetching.fetch(), fetching.feed()
        assert error in told.lower(), f"{server} {path}: {told}"
        assert feed["state"] == "refused" and error in feed["fetch"]["error"].lower(), f"{server} {path}: {feed}"
        assert fetching.all_there(), f"{server} {path}: what was enforced stays enforced"


# --- lies ---

SLOW = {"it stalls": (lies.stalls(GOOD), "too slow", None), "it says nothing": (lies.silent, "too slow", None),
        "it drips": (lies.drips, "too slow", None)}


def lies_of(server):
    """name -> (the answer, why it is not fetched, or None; why the guard refuses it, or None)"""
    return {
        "cut off": (lies.cut_off(GOOD), "bytes", None),
        "cut in a chunk": (lies.cut_chunks(GOOD), "transfer closed", None),
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
        "a bomb": (lies.bomb(), "larger than 1048576 bytes", None),
        "gzip that is none": (lies.whole(GOOD, Content_Encoding="gzip"), "unencoding", None),
        "an endless header": (lies.endless_header, "header", None),
        "no HTTP": (lies.no_http, "http/0.9", None),
        "it hangs up": (lies.resets, "", None),
        "an error page with 200": (lies.whole(b"<!DOCTYPE html>\n<html><body>We are sorry</body></html>\n"), None, "is an HTML page"),
        "nothing with 200": (lies.whole(b""), None, "is empty"),
        "a third, and its length": (lies.whole(GOOD[: len(GOOD) // 3]), None, "shrank from 1000 entries"),
        "most of it, and no length": (lambda handler: (handler.head(), handler.raw(GOOD[:-3])), None, "ends inside of line"),
        "a tenth of its lines": (lies.whole(b"".join(HOSTS[:100])), None, "shrank from 1000 entries to 100"),
        "half of its gzip": (lies.half_gzip(GOOD), "", ""),
        "everything": (lies.whole(GOOD + b"0.0.0.0/1\n128.0.0.0/1\n"), None, "covers"),
    }


@pytest.fixture
def liar(fetching, request):
    """A server that has told the truth once; its feed needs a password. Parameter: the timeout of a fetch."""
    server = lies.LyingServer()
    server.says = lies.whole(GOOD, ETag='"good"')
    fetching.start(fed=f"http://user:secret@127.0.0.1:{server.port}/feed", timeout=getattr(request, "param", "30s"))
    assert fetching.all_there(), "what was fetched first is enforced"
    return server


def is_refused_as(fetching, name, error, refused):
    """A fetch of this lie fails, or the guard refuses what it brings; `controlctl feeds` says which."""
    begin, told = time.time(), fetching.fetch()
    if told:
        assert error is not None and error.lower() in told.lower(), f"{name}: {told!r}, expected {error!r}"
        state = fetching.state()
        assert state["failures"] >= 1 and state["error"] in told, f"{name}: {state}"
        assert begin + 10 < state["next_at"] < time.time() + 3700, f"{name}: {state}"
    else:
        assert refused is not None, f"{name}: it was fetched"
        fetching.session.wait(f"{name} to be refused: {refused}", lambda: refused in fetching.feed().get("reason", "-"))
    code, out, err = fetching.session.controlctl("feeds")
    assert code == 0 and (told.split("not fetched: ")[-1] if told else "REFUSED") in out, f"{name}: {out}{err}"


def change_nothing(session, fetching, server, answers):
    for name, (says, error, refused) in answers.items():
        server.says = says
        is_refused_as(fetching, name, error, refused)
        assert fetching.all_there() and not fetching.is_dropped("203.0.113.9"), f"{name}: what was enforced stays enforced"
        assert not fetching.is_dropped("8.8.8.8"), f"{name}: nothing more is dropped"
    assert "secret" not in session.log("controld") and "secret" not in str(session.call("status")), "diagnostics show the password"
    server.says = lies.whole(GOOD)
    assert fetching.fetch() == "", "a fetch of the truth"
    session.wait("the feed to be good", lambda: fetching.feed()["state"] == "good")
    assert fetching.state()["failures"] == 0, "failures of a mended feed"


def test_no_lie_changes_what_is_enforced(session, fetching, liar):
    change_nothing(session, fetching, liar, lies_of(liar))


@pytest.mark.parametrize("liar", ["2s"], indirect=True)
def test_a_slow_server_changes_nothing(session, fetching, liar):
    change_nothing(session, fetching, liar, SLOW)


@pytest.mark.parametrize("status, seconds, after", [(429, 7200, str), (503, 10_000, lambda seconds: time.strftime(
    "%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + seconds)))], ids=["429-seconds", "503-date"])
def test_a_server_may_put_off_the_next_fetch(fetching, liar, status, seconds, after):
    begin = time.time()
    liar.says = lies.status(status, Retry_After=after(seconds))
    assert f"the server answers {status}" in fetching.fetch()
    assert fetching.state()["next_at"] >= int(begin) + seconds, fetching.state()


def test_the_password_is_for_the_server_of_the_url(session, fetching, liar):
    path, headers = liar.asked[0]
    assert (path, headers["user-agent"], headers.get("authorization", "")[:6]) == ("/feed", "weir-test", "Basic "), "the request"
    assert "secret" not in session.log("controld") and "secret" not in str(session.call("feeds")), "the password is shown"
    other = lies.LyingServer()
    liar.says = lies.redirects(f"{other.url}/elsewhere", 301)
    other.says = lies.whole(GOOD + b"203.0.113.9\n", ETag='"' + "x" * 5000 + '"')
    assert fetching.fetch() == "", "a fetch that leads to another host"
    assert other.asked and "authorization" not in other.asked[-1][1], "another host gets user and password"
    fetching.wait_dropped("203.0.113.9")
    assert fetching.fetch() == "", "a fetch of the same"
    assert "if-none-match" not in other.asked[-1][1], "a request with a tag that is too long"


def fetchers(session_id):
    """Folders in /proc of the processes that fetch."""
    for folder in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError):
            if read(folder + "/comm") == b"weir-fetch\n" and int(read(folder + "/stat").rpartition(b")")[2].split()[3]) == session_id:
                yield folder


def status_of_fetcher(session_id):
    """/proc/PID/status of a process that fetches, once it has its filter of system calls."""
    for folder in fetchers(session_id):
        with contextlib.suppress(OSError):
            fields = dict(line.split(":\t", 1) for line in read(folder + "/status").decode(errors="replace").splitlines() if ":\t" in line)
            if fields.get("Seccomp", "").strip() == "2":
                return fields
    return None


def test_the_process_that_fetches_has_no_privileges(session, fetching, liar):
    liar.says = lies.silent
    with socket.socket(socket.AF_UNIX) as call:
        call.connect(session.path("controld.sock"))
        call.sendall(b'{"command":"fetch","name":"fed"}\n')
        pid = session.controld.pid
        fields = until("a process that fetches, with its filter of system calls", lambda: status_of_fetcher(pid))
        assert (int(fields["CapPrm"], 16), int(fields["CapEff"], 16), fields["NoNewPrivs"]) == (0, 0, "1"), "privileges"
        if os.geteuid() == 0:
            assert fields["Uid"].split()[0] == "65534", "user"
        session.kill("controld")
        until("the end of the process that fetches, after controld's", lambda: not list(fetchers(pid)))


def test_a_proxy_is_asked_for_the_whole_url(session, fetching):
    proxy, of_environment = lies.LyingServer(), lies.LyingServer()
    proxy.says = of_environment.says = lies.whole(GOOD)
    session.environment["http_proxy"] = of_environment.url
    fetching.start(f", proxy: \"{proxy.url}\"", fed="http://feeds.example/drop.txt")
    assert fetching.all_there(), "what came through the proxy is enforced"
    assert proxy.asked[-1][0] == "http://feeds.example/drop.txt", "the request"
    assert of_environment.asked == [], "requests of the environment's proxy"
