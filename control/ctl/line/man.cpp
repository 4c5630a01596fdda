#include <fmt/format.h>

#include <string_view>

#include "control/ctl/line/pages.h"

// roff as man(7) describes it.
namespace weir::control::ctl {

namespace {

// In lines of 70 characters at most, where there are blanks.
std::string wrapped(std::string_view text) {
  constexpr size_t kWidth = 70;
  std::string all(text);
  for (size_t begin = 0; all.size() - begin > kWidth;) {
    size_t blank = all.rfind(' ', begin + kWidth);
    if (blank == std::string::npos || blank <= begin) blank = all.find(' ', begin + kWidth);
    if (blank == std::string::npos) break;
    all[blank] = '\n';
    begin = blank + 1;
  }
  return all;
}

// Backslashes and hyphens as they are; a dot or an apostrophe that begins a line is no request.
std::string escaped(std::string_view text) {
  std::string all;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) all += "\\&";
    all += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
    begins = c == '\n';
  }
  return all;
}

// Paragraphs; lines that begin with blanks are shown as they are.
std::string paragraphs(std::string_view text) {
  std::string all;
  bool literal = false;
  const auto set_literal = [&](bool on) {
    if (on != literal) all += on ? ".nf\n" : ".fi\n";
    literal = on;
  };
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty()) {
      set_literal(false);
      all += ".PP\n";
      continue;
    }
    set_literal(line.front() == ' ');
    all += escaped(line.front() == ' ' ? std::string(line) : wrapped(line)) + "\n";
  }
  set_literal(false);
  return all;
}

std::string rows(const Options& options) {
  std::string text;
  for (const Option& option : options.all()) {
    text += fmt::format(".TP\n\\fB{}\\fR", escaped(option.name));
    if (!option.value_name.empty()) text += fmt::format(" \\fI{}\\fR", escaped(option.value_name));
    std::string help = option.help;
    if (!option.choices.empty()) help += fmt::format("; one of {}", fmt::join(option.choices, ", "));
    text += "\n" + escaped(wrapped(help)) + "\n";
  }
  return text;
}

struct ExitText {
  Exit code;
  const char* text;
};
constexpr ExitText kExits[] = {
    {kOk, "done"},
    {kFailed, "the request failed"},
    {kUsage, "wrong command line"},
    {kNotAcknowledged,
     "not every target acknowledged (a line for each target that did not says why), or a feed was refused and its list "
     "keeps what it had"},
    {kUnreachable, "controld cannot be reached"}};

}  // namespace

std::string man_page(Commands commands) {
  std::string text = fmt::format(
      ".TH CONTROLCTL 1 2026-11-22 \"weir {}\" \"User Commands\"\n"
      ".SH NAME\ncontrolctl \\- ask controld what is enforced, and change it\n"
      ".SH SYNOPSIS\n.B controlctl\n.I COMMAND\n.RB [ \\-\\-json ]\n.RB [ \\-\\-socket\n.IR PATH ]\n.RI [ OPTION "
      ".\\|.\\|.]\n"
      ".SH DESCRIPTION\nEach command is one request to\n.BR controld ,\nthe daemon of the packet filter weir, and one "
      "answer.\n"
      ".SH OPTIONS OF EVERY COMMAND\n",
      escaped(WEIR_VERSION));
  const Common common("");  // its default depends on who asks
  text += rows(common.options);
  text += ".TP\n\\fB\\-\\-help\\fR\nwhat the command does, and its options\n";
  text += ".SH COMMANDS\n";
  for (const Command* command : commands) {
    Options options;
    const Run keeps_the_targets = command->configure(options);
    text += fmt::format(".SS {}\n{}.\n", escaped(command->name), escaped(wrapped(command->help)));
    if (*command->details != '\0') text += ".PP\n" + paragraphs(command->details);
    text += rows(options);
  }
  text += ".SH EXIT STATUS\n";
  for (const ExitText& exit : kExits)
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", static_cast<int>(exit.code), wrapped(exit.text));
  return text;
}

}  // namespace weir::control::ctl
