"""Lines of the programs' logs, as docs/operate/logs.md has them: message, then key=value."""

import re

VALUE = r'(?:"(?:[^"\\]|\\.)*"|[^ "=]+)'
LINE = re.compile(rf'(?P<message>[^="]+?)(?P<fields>(?: [a-z_]+={VALUE})*)')
FIELD = re.compile(rf" ([a-z_]+)=({VALUE})")
ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|.)")
TIMED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} (error|warning|notice|info|debug) (.*)")
JOURNAL = re.compile(r"<([3-7])>(.*)")
LEVELS = {"3": "error", "4": "warning", "5": "notice", "6": "info", "7": "debug"}


def unescape(found):
    code = found.group(1)
    return {"n": "\n", "t": "\t", "r": "\r"}.get(code) or (chr(int(code[1:], 16)) if len(code) == 3 else code)


def parse_event(line):
    """(level, message, {key: value}) of a line, with a time or with journald's level; None: it is none."""
    timed, journal = TIMED.fullmatch(line), JOURNAL.fullmatch(line)
    if not timed and not journal:
        return None
    level, rest = timed.groups() if timed else (LEVELS[journal.group(1)], journal.group(2))
    parts = LINE.fullmatch(rest)
    if not parts:
        return None
    fields = {key: ESCAPE.sub(unescape, value[1:-1]) if value.startswith('"') else value
              for key, value in FIELD.findall(parts.group("fields"))}
    return level, parts.group("message"), fields


def events(text, message=None, **wanted):
    """[(level, message, fields)] of a log; only those with this message, and with these fields."""
    found = filter(None, map(parse_event, text.splitlines()))
    return [event for event in found if message in (None, event[1])
            and all(event[2].get(key) == str(value) for key, value in wanted.items())]
