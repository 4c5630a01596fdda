"""A fleet whose etcd asks for certificates of clients, users and passwords: nodes and operators get in with theirs, nobody else does,
and a user that may only read pushes nothing."""

import os
import subprocess

import pytest

from weir_smoke import BUILD, needs_programs, write
from fleet_rig import NAME, Etcd, Node

pytestmark = needs_programs("etcd", "etcdctl", "openssl")

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
POLICY = "version: 1\nlists:\n  - {name: bad, action: drop, entries: [203.0.113.7]}\n  - {name: jail, action: drop, dynamic: true}\n"


def openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def make_authority(folder):
    openssl(folder, "req", "-x509", *KEY, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca", "-days", "2")


def make_certificate(folder, name):
    """NAME.key and NAME.pem for 127.0.0.1. No CommonName: etcd's gateway would take that of a client for the user's name."""
    write(folder, f"{name}.cnf", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
    openssl(folder, "req", *KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/O={name}")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-out",
            f"{name}.pem", "-extfile", f"{name}.cnf")


class SecureEtcd(Etcd):
    """One member, with users: root, operator, node. The folder has their passwords."""

    def __init__(self, folder):
        self.keys = folder
        super().__init__(1, ["--cert-file", f"{folder}/server.pem", "--key-file", f"{folder}/server.key", "--client-cert-auth",
                             "--trusted-ca-file", f"{folder}/ca.pem"], "https")

    def ctl(self, *arguments, members=None, check=True):
        return super().ctl("--cacert", f"{self.keys}/ca.pem", "--cert", f"{self.keys}/server.pem", "--key", f"{self.keys}/server.key",
                           *arguments, members=members, check=check)

    def ask_for_users(self):
        for user in ("root", "operator", "node"):
            self.ctl("user", "add", f"{user}:{user}-secret", "--interactive=false")
            write(self.keys, f"{user}.password", f"{user}-secret\n")
            self.ctl("role", "add", user, check=False)
        for role, access, key in (("operator", "readwrite", ""), ("node", "read", ""), ("node", "readwrite", "nodes/"),
                                  ("node", "readwrite", "alive/")):
            self.ctl("role", "grant-permission", role, "--prefix=true", access, f"/weir/{NAME}/{key}")
        for user in ("root", "operator", "node"):
            self.ctl("user", "grant-role", user, user)
        self.ctl("auth", "enable")


def access_of(user):
    """Keys of `fleet`."""
    return f"tls: {{ca_file: ca.pem, cert_file: client.pem, key_file: client.key}}, user: {user}, password_file: {user}.password"


class NoEtcd:
    """Stands in for an etcd that is not started yet."""

    def urls(self):
        return []


@pytest.fixture
def node(keeps):
    """A node without a data plane, and an authority in its folder."""
    with Node(BUILD, NoEtcd(), "n1", "rest", access_of("node"), "targets: []\n") as one:
        one.has_dataplane = False
        make_authority(one.folder)
        for name in ("server", "client"):
            make_certificate(one.folder, name)
        yield one
        keeps(one)


@pytest.fixture
def etcd(node):
    with SecureEtcd(node.folder) as one:
        one.ask_for_users()
        node.etcd_urls = one.urls()
        write(node.folder, "weir.yaml", POLICY)
        yield one


def fleet(node, access, *arguments):
    """controlctl fleet with this access: (exit code, answer, standard error)."""
    path = write(node.folder, "access.yaml", f"version: 1\nfleet: {{etcd: {node.etcd_urls}, name: {NAME}, {access}}}\nlists: []\n")
    done = subprocess.run([os.path.join(BUILD, "control/controlctl"), "fleet", *arguments, "--config", path], cwd=node.folder,
                          capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def test_nodes_follow_operators_and_push_nothing(node, etcd):
    operator = access_of("operator")
    code, out, error = fleet(node, operator, "push", "weir.yaml")
    assert code == 0, f"the operator pushes: {out}{error}"
    node.start()
    node.wait("the first revision", lambda: node.controlctl("test", "-q", "203.0.113.7")[0] == 0)
    node.wait("the node's report", lambda: " enforcing " in fleet(node, operator, "status")[1])
    code, out, error = fleet(node, operator, "add", "203.0.113.8", "--enforced", "10s")
    assert code == 0, f"the operator adds: {out}{error}"
    assert node.controlctl("test", "-q", "203.0.113.8")[0] == 0, "the node enforces the entry"
    code, _, error = fleet(node, access_of("node"), "push", "weir.yaml")
    assert code == 1 and "permission denied" in error, f"the node pushes: {code} {error}"


def test_nobody_else_gets_in(node, etcd):
    write(node.folder, "operator.password", "wrong\n")
    for what, access, words in (
            ("a wrong password", access_of("operator"), "authentication failed"),
            ("no certificate", "tls: {ca_file: ca.pem}", node.etcd_urls[0]),
            ("an authority that is not trusted", "tls: {cert_file: client.pem, key_file: client.key}", "certificate"),
            ("no user", "tls: {ca_file: ca.pem, cert_file: client.pem, key_file: client.key}", "user name is empty")):
        code, _, error = fleet(node, access, "status")
        assert code == 1 and words in error, f"{what}: {code} {error}"
