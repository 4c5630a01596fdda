"""What real shells complete: bash, zsh and fish are given a line, and say which words may stand at its end."""

import os
import pty
import re
import select
import subprocess
import tempfile

from until import Patience


def bash_words(program, file, lines):
    """Of each line behind the program's name, the words that bash offers for its last one."""
    script = f"source {file}\n"
    for line in lines:
        split = re.findall(r"=|[^ =]+", line) + ([""] if not line or line[-1] == " " else [])  # as readline divides it
        words = " ".join(f"'{word}'" for word in [program, *split])
        script += (f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=(); _{program} >/dev/null 2>&1\n"
                   "echo \"${COMPREPLY[*]}\" | tr '\\n' ' '; echo\n")
    done = subprocess.run(["bash", "--norc", "-c", script], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    return [set(line.split()) for line in done.stdout.splitlines()]


def fish_words(program, file, lines):
    with tempfile.TemporaryDirectory(prefix="weir-fish-") as home:
        script = f"source {file}\n" + "".join(f"complete -C '{program} {line}' | string split -f1 \\t\necho =\n" for line in lines)
        done = subprocess.run(["fish", "--no-config", "-c", script], stdout=subprocess.PIPE, text=True, timeout=120, check=True,
                              env={**os.environ, "HOME": home, "XDG_CONFIG_HOME": home})
    return [set(part.split()) for part in done.stdout.split("=\n")[:len(lines)]]


# compadd is what hands matches to zsh: here it writes them down.
ZSH = r"""
PS1=; PS2=; unsetopt zle_bracketed_paste prompt_sp prompt_cr; stty -echo
autoload -Uz compinit; compinit -u -D
source FILE
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return $?; fi
  local -a hits
  builtin compadd -A hits "$@"
  print -rl -- $hits >>OUT
}
ask() { zle complete-word; print -r -- = >>OUT; BUFFER= }
zle -N ask
bindkey '^X' ask
print -r -- = >>OUT
"""


def zsh_words(program, file, lines):
    """The same of a zsh that thinks somebody types."""
    with tempfile.TemporaryDirectory(prefix="weir-zsh-") as folder:
        out, setup = os.path.join(folder, "out"), os.path.join(folder, "setup")
        with open(setup, "w", encoding="utf-8") as opened:
            opened.write(ZSH.replace("FILE", file).replace("OUT", out))
        ours, theirs = pty.openpty()
        shell = subprocess.Popen(["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, start_new_session=True,
                                 env={**os.environ, "TERM": "dumb", "HOME": folder, "ZDOTDIR": folder})
        os.close(theirs)
        try:
            parts = _typed(ours, out, [f"source {setup}\n"] + [f"{program} {line}\x18" for line in lines])
        finally:
            shell.kill()
            shell.wait()
            os.close(ours)
    return [set(part.split()) for part in parts[1:len(lines) + 1]]


def _typed(terminal, out, texts):
    """Types each text once the one before has been answered, and returns the answers."""
    patience = Patience(120)
    for number, text in enumerate(texts, 1):
        os.write(terminal, text.encode())
        while True:
            answered = open(out, encoding="utf-8").read() if os.path.exists(out) else ""
            if ("\n" + answered).count("\n=\n") >= number:
                break
            if patience.is_over():
                raise ValueError(f"zsh does not answer {text!r}")
            if select.select([terminal], [], [], 0.02)[0]:
                os.read(terminal, 65536)  # what it draws
    return ("\n" + answered).split("\n=\n")
