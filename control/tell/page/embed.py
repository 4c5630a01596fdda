"""Makes the C++ source that holds files as they are: embed.py OUTPUT NAME=FILE..., each a std::string_view NAME(). For the build."""

import sys

output, *named = sys.argv[1:]
with open(output, "w", encoding="ascii") as source:
    source.write('#include "control/tell/page/page.h"\n\nnamespace weir::control::page {\n')
    for name, path in (pair.split("=", 1) for pair in named):
        with open(path, "rb") as file:
            data = file.read()
        numbers = ",".join(str(byte if byte < 128 else byte - 256) for byte in data)
        source.write(f"\nstatic constexpr char k_{name}[] = {{{numbers}}};\n"
                     f"std::string_view {name}() {{ return {{k_{name}, sizeof k_{name}}}; }}\n")
    source.write("\n}  // namespace weir::control::page\n")
