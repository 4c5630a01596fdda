"""Redirects of a public server lead to public servers only: not to this machine, by address or by name. `private: true` allows them;
a feed's own url may lead to this machine, too."""

import subprocess

import pytest

from weir_smoke import needs_programs, needs_root, write
import lying_server as lies
from namespaces import bind, own_mounts, own_network

pytestmark = [needs_root("an address and names of its own need it"), needs_programs("ip")]

PUBLIC = "192.0.2.80"  # of documentation (RFC 5737): no private network has it
POLICY = """version: 1
targets: []
fetch: {{timeout: 10s{more}}}
lists:
  - {{name: fed, action: drop, url: "{url}"}}
"""


class Feed:
    """A list with a url, and three servers: `public` has the feed, `other` is public, too, `inner` is on this machine."""

    def __init__(self, session):
        self.session = session
        self.public, self.other, self.inner = lies.LyingServer(PUBLIC), lies.LyingServer(PUBLIC), lies.LyingServer()
        self.url = f"http://feeds.example:{self.public.port}/feed"
        self.inside = f":{self.inner.port}/internal"
        for server in (self.public, self.other, self.inner):
            server.says = lies.whole(b"203.0.113.9\n")

    def start(self, url=None, more=""):
        policy = write(self.session.folder, "weir.yaml", POLICY.format(url=url or self.url, more=more))
        self.session.start_controld(policy, targets=False)

    def fetch(self):
        """The error; empty: none."""
        return self.session.call("fetch", name="fed").get("error", "")

    def fetch_redirected(self, to, more=""):
        self.start(more=more)
        self.public.says = lies.redirects(to)
        return self.fetch()


@pytest.fixture
def feed(session):
    own_network()
    own_mounts()
    bind(write(session.folder, "hosts", f"127.0.0.1 localhost inner.example\n{PUBLIC} feeds.example\n"),
         "/etc/hosts")
    for line in ("link set lo up", f"address add {PUBLIC}/32 dev lo"):
        subprocess.run(["ip", *line.split()], check=True)
    return Feed(session)


@pytest.mark.parametrize("host, shown", [("127.0.0.1", "127.0.0.1"), ("inner.example", "127.0.0.1"), ("localhost", "localhost"),
                                         ("0x7f000001", "127.0.0.1"), ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1")])
def test_a_redirect_to_this_machine_is_refused(feed, host, shown):
    error = feed.fetch_redirected(f"http://{host}{feed.inside}")
    assert f"a redirect leads to {shown}, which is not public" in error.replace("[", "").replace("]", ""), error
    assert feed.inner.asked == [], "requests behind the redirect"


def test_a_redirect_to_a_public_server_is_followed(feed):
    assert feed.fetch_redirected(f"http://{PUBLIC}:{feed.other.port}/other") == "", "error of the fetch"
    assert feed.other.asked and not feed.inner.asked, "the other public server is asked, and no other"


def test_private_allows_a_redirect_to_this_machine(feed):
    assert feed.fetch_redirected(f"http://127.0.0.1{feed.inside}", ", private: true") == "", "error of the fetch"
    assert feed.inner.asked, "the server on this machine is asked"


def test_a_url_may_lead_to_this_machine(feed):
    feed.start(f"http://inner.example{feed.inside}")
    feed.inner.asked.clear()
    assert feed.fetch() == "", "error of the fetch"
    assert feed.inner.asked, "the server on this machine is asked"


def test_a_redirect_through_a_proxy_is_refused_by_its_address(feed):
    feed.start(more=f", proxy: \"http://127.0.0.1:{feed.inner.port}\"")
    feed.inner.says = lies.redirects("http://127.0.0.1:1/internal")
    assert "a redirect leads to 127.0.0.1, which is not public" in feed.fetch()
