"""Figures of the units: what systemd-analyze security says of them, 0 (safe) to 10."""

import shutil

from figure import at_most, reported
from rig import Skip
from units import exposure

CONTROLD = 2.0


def security(_build, _folder):
    if not shutil.which("systemd-analyze"):
        raise Skip("no systemd-analyze: scripts/setup test", missing_here=True)
    note = "systemd-analyze security --offline=true configs/systemd/"
    (controld, _), (dataplane, _) = exposure("weir-controld.service"), exposure("weir-dataplane@.service")
    return [at_most("rack.security_controld", controld, CONTROLD, "exposure", note + "weir-controld.service"),
            reported("rack.security_dataplane", dataplane, "exposure", note + "weir-dataplane@.service")], None


MEASUREMENTS = ((("rack.security_controld", "rack.security_dataplane"), security),)
