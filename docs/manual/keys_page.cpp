#include "docs/manual/keys_page.h"

#include <fmt/format.h>

#include <functional>

#include "common/manual/roff.h"

namespace weir::manual {

namespace {

using yaml::Key;
using yaml::Section;

std::string join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

// `pass` | `drop`, in bold.
std::string words_in_bold(std::string_view choices) {
  std::string text;
  for (const std::string_view word : yaml::words_of(choices)) {
    text += fmt::format("{}\\fB{}\\fR", text.empty() ? "" : " | ", escaped(word));
  }
  return text;
}

std::string takes(const Key& key) {
  std::vector<std::string> ways;
  if (key.may_be(yaml::kChoice)) ways.push_back(words_in_bold(key.choices));
  if (key.may_be(yaml::kText)) ways.push_back(fmt::format("\\fI{}\\fR", key.noun));
  if (key.may_be(yaml::kBoolean)) ways.push_back(words_in_bold("true | false"));
  if (key.may_be(yaml::kInteger)) ways.push_back(fmt::format("{} to {}", key.least, key.most));
  if (key.may_be(yaml::kNumber)) {
    ways.push_back(
        escaped(fmt::format("{0}{2} to {1}{2}", yaml::number_text(key.low), yaml::number_text(key.high), key.unit)));
  }
  if (key.may_be(yaml::kSize)) {
    ways.push_back(fmt::format("\\fIsize\\fR from {} to {}", yaml::size_text(key.least), yaml::size_text(key.most)));
  }
  if (key.may_be(yaml::kTime)) {
    ways.push_back(fmt::format("\\fItime\\fR from {} to {}", yaml::time_text(key.least), yaml::time_text(key.most)));
  }
  if (key.may_be(yaml::kSequence)) ways.push_back(fmt::format("[{}, ...]", takes(*key.item)));
  if (key.may_be(yaml::kMap)) ways.emplace_back("{\\fIkey\\fR: ...}");
  return fmt::format("{}", fmt::join(ways, ", or "));
}

void add_keys(std::string& text, const std::string& path, const Section& section);

// What stands below the key has a heading of its own.
void add_below(std::string& text, const std::string& path, const Key& key) {
  if (key.may_be(yaml::kMap)) {
    if (key.section->keys.empty()) return;
    text += fmt::format(".SS {}\n", escaped(path));
    if (!key.help.empty()) text += paragraphs(key.help);
    add_keys(text, path, *key.section);
  }
  if (key.may_be(yaml::kSequence)) add_below(text, path + "[]", *key.item);
}

void add_keys(std::string& text, const std::string& path, const Section& section) {
  for (const Key& key : section.keys) {
    std::string head = fmt::format("\\fB{}\\fR", escaped(key.name));
    if (!key.may_be(yaml::kLater)) head += ": " + takes(key);
    std::string help(key.help);
    if (key.is_required) help += " Required.";
    if (!key.usual.empty()) help += fmt::format(" Default: `{}`.", key.usual);
    text += item(head, help);
  }
  for (const Key& key : section.keys) add_below(text, join(path, key.name), key);
}

void add_paths(std::vector<std::string>& paths, const std::string& path, const Section& section) {
  const std::function<void(const std::string&, const Key&)> add_inner = [&](const std::string& where, const Key& key) {
    if (key.may_be(yaml::kMap)) add_paths(paths, where, *key.section);
    if (key.may_be(yaml::kSequence)) add_inner(where + "[]", *key.item);
  };
  for (const Key& key : section.keys) {
    paths.push_back(join(path, key.name));
    add_inner(paths.back(), key);
  }
}

}  // namespace

std::string keys_page(const Section& section) {
  std::string text;
  add_keys(text, "", section);
  return text;
}

std::vector<std::string> key_paths(const Section& section) {
  std::vector<std::string> paths;
  add_paths(paths, "", section);
  return paths;
}

}  // namespace weir::manual
