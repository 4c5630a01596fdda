#include "control/base/json/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "common/printable.h"

namespace weir::control {

using Json = nlohmann::ordered_json;  // members in the order in which they are described

struct Document::Impl {
  Json json;
};

Document::Document(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Document::Document(Document&&) noexcept = default;
Document& Document::operator=(Document&&) noexcept = default;
Document::~Document() = default;

Result<Document> Document::parse(std::string_view text) {
  auto impl = std::make_unique<Impl>();
  impl->json = Json::parse(text, nullptr, false);
  if (!impl->json.is_object()) return Error{"it is not a JSON object"};
  return Document(std::move(impl));
}

std::string Document::line() const {
  return printable_json(impl_->json.dump(-1, ' ', false, Json::error_handler_t::replace)) + "\n";
}

bool Document::contains(const char* name) const {
  return impl_->json.contains(name);
}

std::optional<bool> Document::flag(const char* name) const {
  const auto found = impl_->json.find(name);
  if (found == impl_->json.end() || !found->is_boolean()) return std::nullopt;
  return found->get<bool>();
}

std::optional<std::string> Document::text(const char* name) const {
  const auto found = impl_->json.find(name);
  if (found == impl_->json.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

bool Document::has_false(const char* name, const char* member) const {
  const auto found = impl_->json.find(name);
  if (found == impl_->json.end() || !found->is_array()) return false;
  return std::any_of(found->begin(), found->end(), [&](const Json& element) {
    return element.is_object() && element.contains(member) && element.at(member) == false;
  });
}

bool Document::has_elements(const char* name) const {
  const auto found = impl_->json.find(name);
  return found != impl_->json.end() && found->is_array() && !found->empty();
}

// Writing.

struct Document::Writer::Impl final : Fields {
  Json root = Json::object();
  std::vector<Json*> open = {&root};  // what begin() began, the innermost last

  bool reading() const override { return false; }
  Json& add(const Member& member) { return (*open.back())[member.name]; }

  void or_null(const Member& member, std::optional<double>& value) override {
    add(member) = value ? Json(*value) : Json();
  }
  void hex(const Member& member, uint64_t& value) override { add(member) = fmt::format("{:016x}", value); }
  void texts(const Member& member, std::vector<std::string>& values) override { add(member) = values; }
  void numbers(const Member& member, std::vector<uint64_t>& values) override { add(member) = values; }
  void buckets(const Member& member, std::vector<Bucket>& values) override {
    Json& all = add(member) = Json::array();
    for (const Bucket& bucket : values) all.push_back(Json::array({bucket.upper, bucket.count}));
  }
  void flag(const Member& member, bool& value) override { add(member) = value; }
  void text(const Member& member, std::string& value) override { add(member) = value; }
  void real(const Member& member, double& value) override { add(member) = value; }
  void whole(const Member& member, uint64_t& value, uint64_t) override { add(member) = value; }
  void whole(const Member& member, int64_t& value) override { add(member) = value; }
  size_t begin(const Member& member, Container container, size_t count, const char*) override {
    Json& value = add(member) = container == Container::array ? Json::array() : Json::object();
    if (count != 0) open.push_back(&value);
    return count;
  }
  void begin_element(size_t) override { open.push_back(&open.back()->emplace_back(Json::object())); }
  void begin_named(size_t, std::string& name) override { open.push_back(&((*open.back())[name] = Json::object())); }
  void named_real(size_t, std::string& name, double& value) override { (*open.back())[name] = value; }
  void end() override { open.pop_back(); }
  bool begin_optional(const char*, bool has_value) override { return has_value; }
  void end_optional() override {}
};

Document::Writer::Writer() : impl_(std::make_unique<Impl>()) {}
Document::Writer::~Writer() = default;

Fields& Document::Writer::fields() {
  return *impl_;
}

Document Document::Writer::take() {
  auto impl = std::make_unique<Document::Impl>();
  impl->json = std::move(impl_->root);
  return Document(std::move(impl));
}

// Reading.

struct Document::Reader::Impl final : Fields {
  struct Level {
    const Json* json;
    std::string path;                // "targets[0]."
    std::string pattern;             // "targets[].", for what is unknown
    bool checks_members;             // an object whose members have names of their own
    std::vector<const char*> asked;  // of them
  };
  std::vector<Level> open;
  std::optional<std::string> error;
  std::vector<std::string> unknown;

  explicit Impl(const Json& json) : open{{&json, "", "", true, {}}} {}

  bool reading() const override { return true; }
  void fail(const char* name, const char* what) {
    if (!error) error = fmt::format("member {}{} {}", open.back().path, name, what);
  }
  // nullptr: missing, or an error came before.
  const Json* find(const char* name) {
    if (error) return nullptr;
    open.back().asked.push_back(name);
    const auto found = open.back().json->find(name);
    if (found != open.back().json->end()) return &*found;
    fail(name, "is missing");
    return nullptr;
  }
  template <class T>
  void take(const Member& member, T& value, bool (Json::*is)() const noexcept, const char* what) {
    const Json* json = find(member.name);
    if (json == nullptr) return;
    if (!(json->*is)()) return fail(member.name, what);
    value = json->get<T>();
  }

  void or_null(const Member& member, std::optional<double>& value) override {
    value.reset();
    const Json* json = find(member.name);
    if (json == nullptr || json->is_null()) return;
    if (!json->is_number()) return fail(member.name, "is neither a number nor null");
    value = json->get<double>();
  }
  void hex(const Member& member, uint64_t& value) override {
    std::string digits;
    text(member, digits);
    const char* end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, value, 16);
    if (!error && (read.ec != std::errc() || read.ptr != end)) fail(member.name, "is not in hexadecimal digits");
  }
  void texts(const Member& member, std::vector<std::string>& values) override {
    const Json* json = find(member.name);
    if (json == nullptr) return;
    if (!json->is_array()) return fail(member.name, "is not an array of texts");
    values.clear();
    for (const Json& value : *json) {
      if (!value.is_string()) return fail(member.name, "is not an array of texts");
      values.push_back(value.get<std::string>());
    }
  }
  void numbers(const Member& member, std::vector<uint64_t>& values) override {
    const Json* json = find(member.name);
    if (json == nullptr) return;
    if (!json->is_array()) return fail(member.name, "is not an array of numbers");
    values.clear();
    for (const Json& value : *json) {
      if (!value.is_number_unsigned()) return fail(member.name, "is not an array of numbers");
      values.push_back(value.get<uint64_t>());
    }
  }
  void buckets(const Member& member, std::vector<Bucket>& values) override {
    const Json* json = find(member.name);
    if (json == nullptr) return;
    if (!json->is_array()) return fail(member.name, "is not an array of pairs");
    values.clear();
    for (const Json& pair : *json) {
      const bool good =
          pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() && pair[1].is_number_unsigned();
      if (!good) return fail(member.name, "is not an array of pairs");
      values.push_back({pair[0].get<uint64_t>(), pair[1].get<uint64_t>()});
    }
  }
  void flag(const Member& member, bool& value) override {
    take(member, value, &Json::is_boolean, "is neither true nor false");
  }
  void text(const Member& member, std::string& value) override {
    take(member, value, &Json::is_string, "is not a text");
  }
  void real(const Member& member, double& value) override { take(member, value, &Json::is_number, "is not a number"); }
  void whole(const Member& member, uint64_t& value, uint64_t most) override {
    take(member, value, &Json::is_number_unsigned, "is not a whole number from 0 on");
    if (value > most && !error) fail(member.name, "is too large a number");
  }
  void whole(const Member& member, int64_t& value) override {
    take(member, value, &Json::is_number_integer, "is not a whole number");
  }
  size_t begin(const Member& member, Container container, size_t, const char*) override {
    const Json* json = find(member.name);
    if (json == nullptr) return 0;
    const bool array = container == Container::array;
    if (array ? !json->is_array() : !json->is_object()) {
      fail(member.name, array ? "is not an array" : "is not an object");
      return 0;
    }
    const size_t count = container == Container::object ? 1 : json->size();
    if (count == 0) return 0;
    const std::string end = array ? "" : ".";
    const Level& here = open.back();
    open.push_back(
        {json, here.path + member.name + end, here.pattern + member.name + end, container == Container::object, {}});
    return count;
  }
  void begin_element(size_t index) override {
    const Level& array = open.back();
    const Json& element = (*array.json)[index];
    if (!element.is_object()) fail(fmt::format("[{}]", index).c_str(), "is not an object");
    open.push_back({&element, fmt::format("{}[{}].", array.path, index), array.pattern + "[].", true, {}});
  }
  void begin_named(size_t index, std::string& name) override {
    const Level& names = open.back();
    const auto element = std::next(names.json->begin(), static_cast<std::ptrdiff_t>(index));
    name = element.key();
    if (!element->is_object()) fail(name.c_str(), "is not an object");
    open.push_back({&*element, names.path + name + ".", names.pattern + "NAME.", true, {}});
  }
  void named_real(size_t index, std::string& name, double& value) override {
    const auto element = std::next(open.back().json->begin(), static_cast<std::ptrdiff_t>(index));
    name = element.key();
    if (!element->is_number()) return fail(name.c_str(), "is not a number");
    value = element->get<double>();
  }
  void end() override {
    look_for_unknown();
    open.pop_back();
  }
  // Null is what other programs write for a member that is missing.
  bool begin_optional(const char* name, bool) override {
    if (error) return false;
    const auto found = open.back().json->find(name);
    if (found == open.back().json->end()) return false;
    if (found->is_null()) open.back().asked.push_back(name);
    return !found->is_null();
  }
  void end_optional() override {}

  // Members of the innermost object that were not asked for.
  void look_for_unknown() {
    const Level& here = open.back();
    if (error || !here.checks_members || here.asked.size() == here.json->size()) return;
    for (const auto& [name, value] : here.json->items()) {
      const auto is_it = [&, &key = name](const char* asked) { return key == asked; };
      if (std::any_of(here.asked.begin(), here.asked.end(), is_it)) continue;
      const std::string path = here.pattern + name;
      if (std::find(unknown.begin(), unknown.end(), path) == unknown.end()) unknown.push_back(path);
    }
  }
};

Document::Reader::Reader(const Document& document) : impl_(std::make_unique<Impl>(document.impl_->json)) {}
Document::Reader::~Reader() = default;

Fields& Document::Reader::fields() {
  return *impl_;
}

const std::optional<std::string>& Document::Reader::error() const {
  return impl_->error;
}

std::vector<std::string> Document::Reader::unknown() const {
  impl_->look_for_unknown();
  return impl_->unknown;
}

}  // namespace weir::control
