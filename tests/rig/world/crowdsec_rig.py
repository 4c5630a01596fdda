"""CrowdSec's real local API with its own folder, database and keys, on a loopback port; nothing leaves the machine. Standard library
only; programs: crowdsec, cscli; for TLS openssl.
"""

import os
import shutil
import socket
import subprocess

from namespaces import free_port
from session import SessionError, tail
from until import until

START_SECONDS = 60
CONFIG = """common: {{daemonize: false, log_media: stdout, log_level: info, working_dir: "{folder}"}}
config_paths:
  config_dir: "{folder}"
  data_dir: "{folder}/data"
  simulation_path: "{folder}/simulation.yaml"
  hub_dir: "{folder}/hub"
  index_path: "{folder}/hub/.index.json"
  notification_dir: "{folder}/notifications"
  plugin_dir: "{folder}/plugins"
cscli: {{output: human}}
db_config: {{type: sqlite, db_path: "{folder}/data/crowdsec.db", use_wal: true}}
plugin_config: {{user: nobody, group: nogroup}}
api:
  client: {{credentials_path: "{folder}/credentials.yaml"}}
  server:
    listen_uri: {at}
    profiles_path: "{folder}/profiles.yaml"
{tls}
prometheus: {{enabled: false}}
"""
TLS = """    tls:
      cert_file: "{folder}/server.pem"
      key_file: "{folder}/server.key"
      client_verification: VerifyClientCertIfGiven
      ca_cert_path: "{folder}/ca.pem"
      bouncers_allowed_ou: [weir]
"""


def missing():
    """What is not there; empty: all is."""
    return ", ".join(name for name in ("crowdsec", "cscli") if not shutil.which(name))


class CrowdSec:
    """Runs for as long as the `with` lasts. with_tls: https, and certificates instead of keys where one is shown."""

    def __init__(self, folder, with_tls=False):
        self.folder = folder
        self.at = f"127.0.0.1:{free_port()}"
        self.url = ("https://" if with_tls else "http://") + self.at
        self.config = self.path("config.yaml")
        self.process = None
        for name in ("data", "hub", "notifications", "plugins"):
            os.makedirs(self.path(name))
        if with_tls:
            self.make_certificates()
        self.write("config.yaml", CONFIG.format(folder=folder, at=self.at, tls=TLS.format(folder=folder) if with_tls else ""))
        self.write("simulation.yaml", "simulation: false\n")
        self.write("profiles.yaml", "name: none\nfilters: ['false']\ndecisions: []\n")
        self.write("hub/.index.json", "{}\n")
        self.cscli("machines", "add", "test", "--password", "of the test", "--file", self.path("credentials.yaml"), "--force",
                   "--url", self.url)
        if with_tls:
            with open(self.path("credentials.yaml"), "a", encoding="ascii") as file:
                file.write(f"ca_cert_path: {self.path('ca.pem')}\n")
        self.key_file = self.path("key")
        self.new_key("weir")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="ascii") as file:
            file.write(text)

    def new_key(self, name):
        """A key for another bouncer, in the file of keys."""
        key = self.cscli("bouncers", "add", name, "-o", "raw").strip()
        self.write("key", key + "\n")
        os.chmod(self.key_file, 0o600)

    def make_certificates(self):
        def openssl(*arguments):
            done = subprocess.run(["openssl", *arguments], cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
            if done.returncode != 0:
                raise SessionError(f"openssl {' '.join(arguments)} failed:\n{tail(done.stderr)}")

        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.pem",
                "-days", "2", "-subj", "/CN=test")
        for name, subject, extensions in (
                ("server", "/CN=server", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n"),
                ("client", "/CN=weir/OU=weir", "extendedKeyUsage=clientAuth\nsubjectAltName=DNS:weir\n")):
            self.write("extensions", extensions)
            openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out",
                    f"{name}.csr", "-subj", subject)
            openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                    "-extfile", "extensions", "-out", f"{name}.pem")

    def cscli(self, *arguments):
        """What it prints."""
        done = subprocess.run(["cscli", "-c", self.config, *arguments], capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise SessionError(f"cscli {' '.join(arguments)} failed:\n{tail(done.stderr)}")
        return done.stdout

    def decide(self, *arguments):
        self.cscli("decisions", "add", *arguments)

    def delete(self, *arguments):
        self.cscli("decisions", "delete", *arguments)

    def start(self):
        with open(self.path("log"), "ab") as log:
            self.process = subprocess.Popen(["crowdsec", "-c", self.config, "-no-cs"], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, start_new_session=True)
        host, port = self.at.split(":")

        def answers():
            with socket.socket() as probe:
                return probe.connect_ex((host, int(port))) == 0

        def log():
            with open(self.path("log"), encoding="utf-8", errors="replace") as file:
                return f":\n{tail(file.read())}"

        until("crowdsec to answer", answers, START_SECONDS, SessionError, lambda: "" if self.process.poll() is None else f"it ended{log()}\n", log)

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
