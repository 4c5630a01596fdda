"""One named figure and its line: NAME VALUE TARGET UNIT STATUS [NOTE]."""

from dataclasses import dataclass


@dataclass
class Figure:
    name: str
    value: float | None = None
    target: str = "-"        # as printed: "<=1", "0"
    unit: str = "-"
    status: str = "reported"  # ok | short | reported | skipped
    note: str = ""
    missing_here: bool = False  # skipped, although this machine could measure it

    def line(self):
        value = "-" if self.value is None else f"{self.value:.4g}" if isinstance(self.value, float) else str(self.value)
        return " ".join(part for part in (self.name, value, self.target, self.unit, self.status, self.note) if part)


def at_most(name, value, limit, unit, note):
    target = f"<={limit}" if limit else "0"
    return Figure(name, value, target, unit, "ok" if value <= limit else "short", note)


def at_least(name, value, limit, unit, note):
    return Figure(name, value, f">={limit}", unit, "ok" if value >= limit else "short", note)


def reported(name, value, unit, note):
    return Figure(name, value, unit=unit, note=note)
