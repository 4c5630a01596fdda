"""Figures of faults that are mended: waits of changes, confirmations that come late, callers without an answer, reproductions.
docs/develop/figures.md says how each is measured.

WEIR_ORDERS: so many random orders instead of 10,000; the figure is then short.
"""

import importlib
import inspect
import json
import os
import subprocess
import tempfile
import time

import mended_control as control
import mended_peers as peers
from figure import Figure, at_most
from figures_safe import in_a_process
from namespaces import NoNamespace
from rig import Skip, build_release, say
from session import SessionError, tail

ADD_MS, LATE_MS = 100, 200
ORDERS, SEED = 10_000, 35
ORDERS_PROGRAM = "tests/unit/control/daemon/test-orders"
ORDERS_S = 7200
FSYNC_S = 10

ADD_SITUATIONS = (
    ("reload of an url", control.add_while_reload_waits),
    ("stopped helpers", control.add_while_helpers_stop),
    ("shadow of an url", control.add_while_shadow_waits),
    ("plan --url", control.add_while_plan_waits),
    ("64 readers", lambda build: control.add_beside_readers(build, 64)),
    ("200 readers", lambda build: control.add_beside_readers(build, 200)),
    ("rollback of 1M rows", lambda build: control.add_while_rolling_back(build, 1_000_000)),
    ("of 2M rows", lambda build: control.add_while_rolling_back(build, 2_000_000)),
)


def slowest_fsync_ms(folder):
    """Of 4 KiB on this disk, for some seconds."""
    worst, end = 0.0, time.monotonic() + FSYNC_S
    with open(os.path.join(folder, "fsync"), "wb") as file:
        while time.monotonic() < end:
            file.write(bytes(4096))
            file.flush()
            begin = time.monotonic()
            os.fsync(file.fileno())
            worst = max(worst, (time.monotonic() - begin) * 1000)
            time.sleep(0.02)
    return worst


def adds(build, folder):
    """The slowest `add` in each situation; one that could not be tried leaves the figure without a value."""
    found = {}
    fsync_ms = slowest_fsync_ms(folder)
    for name, situation in ADD_SITUATIONS:
        say(f"mended: add beside: {name}")
        found[name] = situation(build)[0]
    note = "; ".join(f"{name} {one.told()}" for name, one in found.items())
    note += f"; state in {control.MEMORY}, an fsync of the disk takes up to {fsync_ms:.0f}"
    worst = max(one.worst for one in found.values())
    return [at_most("mended.add_ms_worst", worst, ADD_MS, "ms", note)], {name: vars(one) | {"session": None} for name, one in found.items()}


def confirmations(build, _folder):
    say("mended: what waits for a confirmation")
    found = {"way back beside a shadow": control.way_back_beside_shadow(build), "confirm beside a shadow": control.confirm_beside_shadow(build),
             "way back with a target away": control.way_back_while_away(build)}
    note = "; ".join(f"{name} {ms:.0f}" for name, ms in found.items())
    return [at_most("mended.confirm_late_ms", max(found.values()), LATE_MS, "ms", note)], found


def unanswered(build, _folder):
    build_release(build, [ORDERS_PROGRAM])
    orders = int(os.environ.get("WEIR_ORDERS", ORDERS))
    say(f"mended: {orders} random orders")
    done = subprocess.run([os.path.join(build, ORDERS_PROGRAM), "--orders", str(orders), "--seed", str(SEED)], capture_output=True,
                          text=True, errors="replace", timeout=ORDERS_S)
    if not done.stdout.startswith("{"):
        raise SessionError(f"test-orders ended with {done.returncode}: {tail(done.stderr)}")
    found = json.loads(done.stdout)
    first = "".join(f"; {line[:160]}" for line in done.stderr.splitlines()[:2])
    note = f"{found['unanswered']} without an answer, {found['wrong']} with another's, of {found['orders']} with seed {found['seed']}{first}"
    figure = at_most("mended.unanswered", found["unanswered"] + found["wrong"], 0, "callers", note)
    if found["orders"] < ORDERS:
        figure.status = "short"
    return [figure], found


OTHERS = {"spread_lost": ("packets", "mended_dataplane"), "hostile_endless": ("cases", "mended_dataplane"), "escapes": ("characters", "mended_text")}
KNOWN = {}  # figures of OTHERS that were measured already


def other(name, build):
    """The figure of a module of its own: its function returns it, its value, or what a measurement returns."""
    if name not in KNOWN:
        unit, module = OTHERS[name]
        try:
            function = getattr(importlib.import_module(module), name)
        except (ModuleNotFoundError, AttributeError) as error:
            raise Skip(f"script: {error}", missing_here=True) from None
        say(f"mended: {name}")
        with tempfile.TemporaryDirectory(prefix="weir-mended-") as folder:
            found = function(*(build, folder)[:len(inspect.signature(function).parameters)])
        if isinstance(found, tuple) and isinstance(found[0], list):
            found = next(figure for figure in found[0] if figure.name == f"mended.{name}")
        if not isinstance(found, Figure):
            found = at_most(f"mended.{name}", *(found if isinstance(found, tuple) else (found,))[:1], 0, unit, "")
        KNOWN[name] = found
    return KNOWN[name]


def row_of(name):
    def measured(build, _folder):
        return [other(name, build)], None
    measured.__name__ = name
    return measured


# Each returns whether the fault still shows, and what was seen.


def waits(adds_of):
    """The fault of an `add` that waits for something."""
    def shows(build):
        found = adds_of(build)[0]
        return found.worst >= control.LONG_MS, found.told()
    return shows


def answers_of_reload(build):  # d
    plan, report = control.reload_beside_plan(build)
    return not (plan.get("ok") and report.get("ok")), f"plan ok {plan.get('ok')}, reload ok {report.get('ok')}"


def answer_of_bad_policy(build):  # g
    report = control.answer_of_bad_policy(build)
    is_own = report.get("errors", 0) > 0 or "controlctl confirm" in report.get("error", "")
    return not is_own, f"cause '{report.get('cause')}', errors {report.get('errors')}"


def rollback_is_large(build):  # j
    found, peak_mib, seconds = control.add_while_rolling_back(build, 2_000_000)
    most = control.PEAK_MIB * 2_000_000 / control.PEAK_ROWS
    return found.worst >= control.LONG_MS or peak_mib > most, f"add {found.told()}; {peak_mib:.0f} MiB more, {seconds:.1f} s"


def last_good_is_older(build):  # k
    action, is_enforced = control.stop_after_add(build, True)
    return action != "drop" or not is_enforced, f"explain says {action}, enforced {is_enforced}"


def confirmation_waits(build):  # n1
    late, confirmed = control.way_back_beside_shadow(build), control.confirm_beside_shadow(build)
    return max(late, confirmed) >= control.LONG_MS, f"{late:.0f} ms late, confirmed after {confirmed:.0f} ms"


def inside_is_fetched(build):  # n4
    try:
        found = in_a_process(control.redirect_to_loopback, build)
    except NoNamespace as reason:
        raise Skip(str(reason)) from None
    return found, f"asked {found}"


def shadow_starves(build):  # n5
    before, _ = control.shadow_beside_reloads(build)
    return before >= control.RACE_RELOADS, f"after {before} of {control.RACE_RELOADS} reloads"


def of_other(name):
    def shows(build):
        figure = other(name, build)
        return figure.value != 0, figure.note or str(figure.value)
    return shows


REPRODUCTIONS = {
    "a": of_other("spread_lost"), "b": of_other("hostile_endless"), "c1": peers.add_beside_rollout, "c2": peers.delete_beside_reload,
    "d": answers_of_reload, "e": waits(control.add_while_reload_waits), "f": waits(lambda build: control.add_beside_readers(build, 64)),
    "g": answer_of_bad_policy, "h": peers.numbers_wrap, "i": of_other("escapes"), "j": rollback_is_large, "k": last_good_is_older,
    "n1": confirmation_waits, "n2": peers.turn_wraps, "n3": waits(control.add_while_helpers_stop), "n4": inside_is_fetched, "n5": shadow_starves,
}


def reproductions(build, _folder):
    """One that this machine cannot try counts as left."""
    told, left = {}, []
    for name, shows in REPRODUCTIONS.items():
        say(f"mended: reproduction {name}")
        try:
            is_left, told[name] = shows(build)
        except (Skip, SessionError, OSError, ValueError, subprocess.SubprocessError) as error:
            is_left, told[name] = True, f"not tried: {' '.join(str(error).split())[:100]}"
        if is_left:
            left.append(name)
    note = f"of {len(REPRODUCTIONS)}" + "".join(f"; {name}: {told[name][:120]}" for name in left)
    return [at_most("mended.reproductions_left", len(left), 0, "faults", note)], told


MEASUREMENTS = (
    (("mended.add_ms_worst",), adds),
    (("mended.confirm_late_ms",), confirmations),
    (("mended.unanswered",), unanswered),
    *(((f"mended.{name}",), row_of(name)) for name in OTHERS),
    (("mended.reproductions_left",), reproductions),
)
