"""A fleet whose etcd is reached by TLS with certificates of clients, and asks for users and passwords: nodes and operators get in with
theirs, nobody else does, and a user who may only read pushes nothing."""

import os
import shutil
import subprocess

from weir_smoke import BUILD, check, equal, skip, write
from fleet_rig import NAME, Etcd, Node, Operator

for program in ("etcd", "etcdctl", "openssl"):
    if shutil.which(program) is None:
        skip(f"program: no {program}: scripts/setup test installs it")


def openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def certificate(folder, name):
    """NAME.key and NAME.pem for 127.0.0.1, by the authority in the folder. Without a CommonName: etcd's gateway refuses those of clients that
    have one when it knows users, because it would take it for the user's name."""
    write(folder, f"{name}.cnf", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
    openssl(folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr",
            "-subj", f"/O={name}")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-out",
            f"{name}.pem", "-extfile", f"{name}.cnf")


class SecureEtcd(Etcd):
    def __init__(self, folder):
        self.keys = folder
        super().__init__(1, ["--cert-file", f"{folder}/server.pem", "--key-file", f"{folder}/server.key", "--client-cert-auth",
                             "--trusted-ca-file", f"{folder}/ca.pem"], "https")

    def ctl(self, *arguments, members=None, check=True):
        return super().ctl("--cacert", f"{self.keys}/ca.pem", "--cert", f"{self.keys}/server.pem", "--key", f"{self.keys}/server.key", *arguments,
                           members=members, check=check)


def fleet_keys(user):
    return f"tls: {{ca_file: ca.pem, cert_file: client.pem, key_file: client.key}}, user: {user}, password_file: {user}.password"


with Node(BUILD, type("None", (), {"urls": lambda self: []})(), "n1", "rest", fleet_keys("node"), "targets: []\n") as node:
    folder = node.folder
    openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-subj",
            "/CN=ca", "-days", "2")
    for name in ("server", "client"):
        certificate(folder, name)
    with SecureEtcd(folder) as etcd:
        node.etcd_urls = etcd.urls()
        for user in ("root", "operator", "node"):
            etcd.ctl("user", "add", f"{user}:{user}-secret", "--interactive=false")
            write(folder, f"{user}.password", f"{user}-secret\n")
        for role, access, key in (("operator", "readwrite", f"/weir/{NAME}/"), ("node", "read", f"/weir/{NAME}/"),
                                  ("node", "readwrite", f"/weir/{NAME}/nodes/"), ("node", "readwrite", f"/weir/{NAME}/alive/")):
            etcd.ctl("role", "add", role, check=False)
            etcd.ctl("role", "grant-permission", role, "--prefix=true", access, key)
            etcd.ctl("user", "grant-role", role, role)
        etcd.ctl("role", "add", "root", check=False)
        etcd.ctl("user", "grant-role", "root", "root")
        etcd.ctl("auth", "enable")

        def operator(user, more=""):
            """controlctl fleet as this user: (exit code, answer, standard error)."""
            path = write(folder, f"as-{user}.yaml", f"version: 1\nfleet: {{etcd: [{etcd.url(0)!r}], name: {NAME}, {more or fleet_keys(user)}}}\nlists: []\n")
            return lambda *arguments: run(path, arguments)

        def run(path, arguments):
            done = subprocess.run([os.path.join(BUILD, "control/controlctl"), "fleet", *arguments, "--config", path], cwd=folder, capture_output=True,
                                  text=True, timeout=60, check=False)
            return done.returncode, done.stdout, done.stderr

        write(folder, "weir.yaml", "version: 1\nlists:\n  - {name: bad, action: drop, entries: [203.0.113.7]}\n  - {name: jail, action: drop, dynamic: true}\n")
        code, out, error = operator("operator")("push", "weir.yaml")
        equal(code, 0, f"the operator pushes: {out}{error}")
        node.has_dataplane = False
        node.start()
        node.wait("the first revision", lambda: node.controlctl("test", "-q", "203.0.113.7")[0] == 0)
        node.wait("the node's report", lambda: " enforcing " in operator("operator")("status")[1])
        code, out, error = operator("operator")("add", "203.0.113.8", "--enforced", "10s")
        equal(code, 0, f"the operator adds: {out}{error}")
        equal(node.controlctl("test", "-q", "203.0.113.8")[0], 0, "the node enforces it")

        # A node reads, and pushes nothing.
        code, _, error = operator("node")("push", "weir.yaml")
        check(code == 1 and "permission denied" in error, f"a node pushes: {code} {error}")
        write(folder, "operator.password", "wrong\n")
        code, _, error = operator("operator")("status")
        check(code == 1 and "authentication failed" in error, f"a wrong password: {code} {error}")
        code, _, error = operator("none", "tls: {ca_file: ca.pem}")("status")
        check(code == 1 and etcd.url(0) in error, f"without a certificate: {code} {error}")
        code, _, error = operator("none", "tls: {cert_file: client.pem, key_file: client.key}")("status")
        check(code == 1 and "certificate" in error, f"an authority that is not trusted: {code} {error}")
        code, _, error = operator("none", "tls: {ca_file: ca.pem, cert_file: client.pem, key_file: client.key}")("status")
        check(code == 1 and "user name is empty" in error, f"without a user: {code} {error}")
