// What a process that parses YAML tells controld. First byte even: it is honest, and the rest is a YAML text: what is
// made of it is the same as without that process. Odd: the rest is what it says of some text: no crash, and a policy
// that is accepted keeps the promises of control/policy/model/policy.h.
#include <span>

#include "common/yaml/yaml.h"
#include "tests/fuzz/policy_promises.h"

namespace {

using namespace weir;
using fuzz::require;

constexpr uint64_t kNow = 1'780'000'000;
constexpr size_t kMostText = 4096;
const std::string kSenseless = std::string("cannot read this YAML: ") + yaml::kNoEvents;

bool is_same(const yaml::Node& a, const yaml::Node& b) {
  if (a.kind != b.kind || a.quoted != b.quoted || a.line != b.line || a.column != b.column || a.text != b.text ||
      a.items.size() != b.items.size() || a.members.size() != b.members.size()) {
    return false;
  }
  for (size_t i = 0; i < a.items.size(); i++) {
    if (!is_same(a.items[i], b.items[i])) return false;
  }
  for (size_t i = 0; i < a.members.size(); i++) {
    if (!is_same(a.members[i].key, b.members[i].key) || !is_same(a.members[i].value, b.members[i].value)) return false;
  }
  return true;
}

// As parsed apart, but for the process: events become bytes, and bytes events.
Result<void> by_bytes(std::string_view text, const yaml::TakeEvent& take) {
  std::string bytes;
  (void)yaml::parse_here(text, [&](const yaml::Event& event) {
    const yaml::EventHead head = yaml::head_of(event);
    bytes.append(reinterpret_cast<const char*>(&head), sizeof head).append(event.text);
  });
  yaml::EventReader reader(2 * text.size() + 1024, take);
  const auto all = std::as_bytes(std::span(bytes));
  for (size_t at = 0, step = 1; at < all.size(); at += step, step = step * 2 + 1) {
    step = std::min(step, all.size() - at);
    require(reader.read(all.subspan(at, step)));
  }
  return {};
}

void is_honest(const std::string& text) {
  Diagnostics here, apart;
  const auto expected = yaml::parse_document("fuzz.yaml", text, here);
  const auto got = yaml::parse_document("fuzz.yaml", text, apart, by_bytes);
  require(expected.has_value() == got.has_value() && format(here) == format(apart));
  require(!expected || is_same(expected->root, got->root));
  for (const Diagnostic& one : here.kept()) require(one.message != kSenseless);  // what no text gives
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    is_honest(std::string(rest));
    return 0;
  }
  Diagnostics diagnostics;
  std::string text;
  while (text.size() < kMostText) text += "# a line\n";
  const auto lying = [&](std::string_view, const yaml::TakeEvent& take) -> Result<void> {
    yaml::EventReader reader(kMostText, take);
    const auto all = std::as_bytes(std::span(rest));
    const size_t first = all.size() / 3;
    if (!reader.read(all.first(first)) || !reader.read(all.subspan(first))) return Error{yaml::kNoEvents};
    return {};
  };
  const auto policy = control::parse_policy("fuzz.yaml", text, diagnostics, kNow, lying);
  require(policy.has_value() == diagnostics.ok());
  require(diagnostics.ok() || !format(diagnostics).empty());
  if (policy) fuzz::require_policy(*policy);
  return 0;
}
