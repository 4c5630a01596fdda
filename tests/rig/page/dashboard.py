"""A real Prometheus that reads from a controld, and the questions of configs/monitoring asked of it."""

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

from namespaces import free_port
from session import ROOT, SessionError
from until import until

DASHBOARD = os.path.join(ROOT, "configs/monitoring/weir-dashboard.json")
RULES = os.path.join(ROOT, "configs/monitoring/weir-alerts.yml")
START_SECONDS = 60


def panels_of(path=DASHBOARD):
    """[panel] that ask something, in their order."""
    with open(path, encoding="utf-8") as file:
        return [panel for panel in json.load(file)["panels"] if panel.get("targets")]


def plain(expression, interval="10s"):
    """What a panel asks, as Prometheus understands it: every instance, every target."""
    return (expression.replace("$__rate_interval", interval).replace('"$instance"', '".*"').replace('"$target"', '".*"'))


class Prometheus:
    """On loopback, in a folder, for as long as the `with` lasts; scrapes once a second."""

    def __init__(self, folder, address):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.at = f"127.0.0.1:{free_port()}"
        with open(os.path.join(folder, "prometheus.yml"), "w", encoding="ascii") as file:
            json.dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [RULES], "scrape_configs": [
                {"job_name": "weir", "scrape_timeout": "1s", "static_configs": [{"targets": [address]}]}]}, file)
        self.process = None

    def __enter__(self):
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen([
                shutil.which("prometheus"), f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                f"--web.listen-address={self.at}"], stdout=log, stderr=log)
        self.wait("Prometheus to answer", self.is_there)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def is_there(self):
        try:
            with urllib.request.urlopen(f"http://{self.at}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def wait(self, what, test):
        def log():
            with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
                return f":\n{file.read()[-2000:]}"

        until(what, test, START_SECONDS, SessionError, lambda: "" if self.process.poll() is None else f"it ended{log()}\n", log, 0.2)

    def api(self, path, **arguments):
        """What the API says, or why it says nothing."""
        try:
            with urllib.request.urlopen(f"http://{self.at}/api/v1/{path}?{urllib.parse.urlencode(arguments)}", timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise SessionError(f"{path} {arguments}: {error.read().decode()}") from None

    def ask(self, expression):
        return self.api("query", query=expression)["result"]

    def ask_range(self, expression, seconds=60, step=1):
        now = time.time()
        return self.api("query_range", query=expression, start=now - seconds, end=now, step=step)["result"]

    def wait_scraped(self, times=12):
        self.wait(f"{times} scrapes", lambda: sum(int(one["value"][1]) for one in self.ask('count_over_time(up{job="weir"}[5m])')) >= times)
