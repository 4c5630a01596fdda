#include "common/manual/roff.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace weir::manual {

namespace {

constexpr const char* kDateOfVersion = "2026-11-24";

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

}  // namespace

std::string escaped(std::string_view text) {
  std::string all;
  bool begins = true, is_bold = false;
  for (const char c : text) {
    if (c == '`') {
      is_bold = !is_bold;
      all += is_bold ? "\\fB" : "\\fR";
      begins = false;
      continue;
    }
    if (begins && (c == '.' || c == '\'')) all += "\\&";
    all += c == '\\' ? "\\e" : c == '-' ? "\\-" : c == '~' ? "\\(ti" : c == '^' ? "\\(ha" : std::string(1, c);
    begins = c == '\n';
  }
  return all;
}

std::string paragraphs(std::string_view text) {
  std::string all;
  bool literal = false;
  const auto set_literal = [&](bool on) {
    if (on != literal) all += on ? ".nf\n" : ".fi\n";
    literal = on;
  };
  bool is_first = true;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty()) {
      set_literal(false);
      if (!is_first) all += ".PP\n";
      continue;
    }
    is_first = false;
    set_literal(line.front() == ' ');
    all += escaped(line.front() == ' ' ? std::string(line) : wrapped(line)) + "\n";
  }
  set_literal(false);
  return all;
}

std::string item(std::string_view head, std::string_view text) {
  return fmt::format(".TP\n{}\n{}\n", head, escaped(wrapped(text)));
}

std::string rows(const Options& options) {
  std::string text;
  for (const Option& option : options.all()) {
    std::string head = fmt::format("\\fB{}\\fR", escaped(option.name));
    if (!option.value_name.empty()) head += fmt::format(" \\fI{}\\fR", escaped(option.value_name));
    std::string help = option.help;
    if (!option.choices.empty()) help += fmt::format("; one of {}", fmt::join(option.choices, ", "));
    text += item(head, help);
  }
  return text;
}

std::string title(std::string_view name, int section, std::string_view name_of_section) {
  return fmt::format(".TH {} {} {} \"weir {}\" \"{}\"\n", escaped(name), section, date(), escaped(WEIR_VERSION),
                     name_of_section);
}

std::string date() {
  const char* epoch = getenv("SOURCE_DATE_EPOCH");
  if (epoch == nullptr) return kDateOfVersion;
  time_t seconds = 0;
  const auto [end, error] = std::from_chars(epoch, epoch + strlen(epoch), seconds);
  tm parts = {};
  char text[16];
  if (error != std::errc() || *end != '\0' || gmtime_r(&seconds, &parts) == nullptr) return kDateOfVersion;
  return strftime(text, sizeof text, "%Y-%m-%d", &parts) == 0 ? kDateOfVersion : text;
}

}  // namespace weir::manual
