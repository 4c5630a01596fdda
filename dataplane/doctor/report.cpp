#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/printable.h"
#include "dataplane/doctor/subject.h"

// The report for people and for programs.
namespace weir::dataplane::doctor {

namespace {

constexpr size_t kLineWidth = 120;
constexpr size_t kHealthWidth = 9;
constexpr size_t kMostNameWidth = 20;

// text behind first, and what does not fit below it, indented.
std::string wrap(std::string first, size_t indent, std::string_view text) {
  std::string lines = std::move(first);
  size_t column = lines.size();
  bool at_start = true;
  for (const std::string_view word : words_of(text)) {
    if (!at_start && column + 1 + word.size() > kLineWidth) {
      lines.append("\n").append(indent, ' ');
      column = indent;
    } else if (!at_start) {
      lines += ' ';
      column++;
    }
    lines += word;
    column += word.size();
    at_start = false;
  }
  return lines + "\n";
}

size_t name_width(const Section& section) {
  size_t width = 0;
  for (const Finding& finding : section.findings) width = std::max(width, finding.check.size());
  return std::min(width, kMostNameWidth);
}

std::string section_text(const Section& section) {
  std::string text = section.title + "\n";
  const size_t width = name_width(section);
  const size_t indent = 2 + kHealthWidth + width + 2;
  for (const Finding& finding : section.findings) {
    const std::string start =
        fmt::format("  {:<{}}{:<{}}  ", name_of(finding.health), kHealthWidth, finding.check, width);
    text += wrap(start, indent, finding.found);
    if (!finding.fix.empty()) text += wrap(std::string(indent, ' ') + "-> ", indent + 3, finding.fix);
  }
  return text + "\n";
}

// Each part once: two checks may ask for the same one.
std::vector<std::string> boot_parameters(const Report& report) {
  std::vector<std::string> parameters;
  for (const Section& section : report.sections) {
    for (const Finding& finding : section.findings) {
      for (const std::string_view word : words_of(finding.boot)) {
        if (std::find(parameters.begin(), parameters.end(), word) == parameters.end()) parameters.emplace_back(word);
      }
    }
  }
  return parameters;
}

}  // namespace

std::string as_text(const Report& report) {
  std::string text;
  for (const Section& section : report.sections) text += section_text(section);
  if (const std::vector<std::string> parameters = boot_parameters(report); !parameters.empty()) {
    text += wrap("For the next boot: ", 2,
                 "add to GRUB_CMDLINE_LINUX in /etc/default/grub, then run update-grub and boot:");
    text += wrap("  ", 2, join(parameters, " ")) + "\n";
  }
  text +=
      fmt::format("{}, {}; {} ok, {} unknown. Nothing was changed.\n", plural(report.count(Health::problem), "problem"),
                  plural(report.count(Health::hint), "hint"), report.count(Health::ok), report.count(Health::unknown));
  return text;
}

std::string as_json(const Report& report) {
  nlohmann::ordered_json sections = nlohmann::ordered_json::array();
  for (const Section& section : report.sections) {
    nlohmann::ordered_json findings = nlohmann::ordered_json::array();
    for (const Finding& finding : section.findings) {
      nlohmann::ordered_json entry = {
          {"check", finding.check}, {"health", name_of(finding.health)}, {"found", finding.found}};
      if (!finding.fix.empty()) entry["fix"] = finding.fix;
      if (!finding.boot.empty()) entry["boot"] = finding.boot;
      findings.push_back(std::move(entry));
    }
    sections.push_back({{"section", section.name}, {"title", section.title}, {"findings", std::move(findings)}});
  }
  nlohmann::ordered_json json = {{"problems", report.count(Health::problem)},
                                 {"hints", report.count(Health::hint)},
                                 {"ok", report.count(Health::ok)},
                                 {"unknown", report.count(Health::unknown)},
                                 {"boot", boot_parameters(report)},
                                 {"sections", std::move(sections)}};
  // A file of the machine may hold bytes that are no UTF-8.
  return printable_json(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) + "\n";
}

}  // namespace weir::dataplane::doctor
