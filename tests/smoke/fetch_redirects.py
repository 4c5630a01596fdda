"""Redirects of a public server stay public: not to this machine by its address, not by a name that resolves to it, unless the
policy says so, or its own url leads there."""

import subprocess

from weir_smoke import BUILD, Session, check, equal, skips_without_namespaces
import lying_server as lies
from namespaces import bind, own_mounts, own_network

PUBLIC = "192.0.2.80"  # of documentation (RFC 5737): no private network has it

with skips_without_namespaces():
    own_network()
    own_mounts()
for line in ("link set lo up", f"address add {PUBLIC}/32 dev lo"):
    subprocess.run(["ip", *line.split()], check=True)

with Session(BUILD) as session:
    with open(session.path("hosts"), "w", encoding="ascii") as file:
        file.write(f"127.0.0.1 localhost inner.example\n{PUBLIC} feeds.example both.example\n127.0.0.1 both.example\n")
    with skips_without_namespaces():
        bind(session.path("hosts"), "/etc/hosts")
    server, elsewhere, inner = lies.LyingServer(PUBLIC), lies.LyingServer(PUBLIC), lies.LyingServer()
    inner.says = elsewhere.says = lies.whole(b"203.0.113.9\n")

    def fetch(url, leads_to, more=""):
        """The fetch's error, empty when there is none, and whether the inner server was asked."""
        before = len(inner.asked)
        session.controld and session.stop("controld")
        server.says = lies.whole(b"203.0.113.8\n")
        with open(session.path("weir.yaml"), "w", encoding="ascii") as policy:
            policy.write(f"version: 1\ntargets: []\nfetch: {{timeout: 10s{more}}}\nlists:\n  - {{name: fed, action: drop, url: \"{url}\"}}\n")
        session.start_controld(session.path("weir.yaml"), targets=False)
        server.says = lies.redirects(leads_to)
        return session.call("fetch", name="fed").get("error", ""), len(inner.asked) > before

    at, behind = f"http://feeds.example:{server.port}/feed", f":{inner.port}/internal"
    for host, shown in (("127.0.0.1", "127.0.0.1"), ("inner.example", "127.0.0.1"), ("localhost", "localhost"), ("0x7f000001", "127.0.0.1"),
                        ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1")):
        error, asked = fetch(at, f"http://{host}{behind}")
        check(f"a redirect leads to {shown}, which is not public" in error.replace("[", "").replace("]", ""), f"{host}: {error!r}")
        equal(asked, False, f"requests behind a redirect to {host}")
    equal(fetch(at, f"http://{PUBLIC}:{elsewhere.port}/other"), ("", False), "a redirect to a public server")
    check(elsewhere.asked, "the other public server is asked")
    equal(fetch(at, f"http://127.0.0.1{behind}", ", private: true"), ("", True), "a redirect to this machine, with private: true")
    # A policy whose own url leads to this machine trusts what is there.
    equal(fetch(f"http://inner.example{behind}", ""), ("", True), "an url that leads to this machine")

    # A proxy is asked for all, and redirects to addresses that are written are seen.
    proxy = f", proxy: \"http://127.0.0.1:{inner.port}\""
    inner.says = lies.redirects("http://127.0.0.1:1/internal")
    error, _ = fetch(at, "", proxy)
    check("a redirect leads to 127.0.0.1, which is not public" in error, f"through a proxy: {error!r}")
print("redirects by address, by name and through a proxy")
