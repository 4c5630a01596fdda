"""Figures of what an operator meets: installing, services, metrics, manuals. Each part has a module of its own."""

import rack_manual
import rack_metrics
import rack_package
import rack_page
import rack_services
import rack_trixie

NEEDS_BUILD = False  # a figure here that does calls build_release(build)
PARTS = (rack_package, rack_manual, rack_metrics, rack_page, rack_services, rack_trixie)  # a new part: its module here
MEASUREMENTS = sum((part.MEASUREMENTS for part in PARTS), ())
