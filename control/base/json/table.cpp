#include "control/base/json/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::control {

class MemberTable::Lister final : public Fields {
 public:
  std::vector<Object> objects;

  bool reading() const override { return false; }
  void or_null(const Member& member, std::optional<double>&) override { row(member, "number or null"); }
  void hex(const Member& member, uint64_t&) override { row(member, "text: 16 hexadecimal digits"); }
  void texts(const Member& member, std::vector<std::string>&) override { row(member, "array of texts"); }
  void numbers(const Member& member, std::vector<uint64_t>&) override { row(member, "array of numbers"); }
  void buckets(const Member& member, std::vector<Bucket>&) override { row(member, "array of [number, number]"); }

  void begin_answer(const char* command) {
    // An answer that is a part of another one, too, is listed here.
    std::erase_if(objects, [&](const Object& object) { return object.name == command; });
    objects.push_back({command, true, {}});
    open_.push_back({objects.size() - 1, 0});
  }
  void end() override { open_.pop_back(); }

 private:
  struct Level {
    size_t object;
    unsigned optional;  // how many begin_optional() are open
  };
  std::vector<Level> open_;

  void row(const Member& member, const std::string& type) {
    objects[open_.back().object].rows.push_back(
        {member.name, type, member.unit, member.meaning, open_.back().optional != 0});
  }
  void flag(const Member& member, bool&) override { row(member, "true or false"); }
  void text(const Member& member, std::string&) override { row(member, "text"); }
  void real(const Member& member, double&) override { row(member, "number"); }
  void whole(const Member& member, uint64_t&, uint64_t) override { row(member, "number"); }
  void whole(const Member& member, int64_t&) override { row(member, "number"); }
  size_t begin(const Member& member, Container container, size_t, const char* type) override {
    const char* format = container == Container::object  ? "{}"
                         : container == Container::array ? "array of {}"
                                                         : "object: name -> {}";
    row(member, fmt::format(fmt::runtime(format), type));
    const auto has_name = [&](const Object& object) { return object.name == type; };
    if (std::string_view(type) == "number" || std::any_of(objects.begin(), objects.end(), has_name)) return 0;
    objects.push_back({type, false, {}});
    open_.push_back({objects.size() - 1, 0});
    return 1;
  }
  // The level of begin() is that of its one element, too.
  void begin_element(size_t) override { open_.push_back(open_.back()); }
  void begin_named(size_t, std::string&) override { open_.push_back(open_.back()); }
  void named_real(size_t, std::string&, double&) override {}
  bool begin_optional(const char*, bool) override {
    open_.back().optional++;
    return true;
  }
  void end_optional() override { open_.back().optional--; }
};

MemberTable::MemberTable() : lister_(std::make_unique<Lister>()) {}
MemberTable::~MemberTable() = default;

const std::vector<MemberTable::Object>& MemberTable::objects() const {
  return lister_->objects;
}

Fields& MemberTable::begin(const char* command) {
  lister_->begin_answer(command);
  return *lister_;
}

void MemberTable::end() {
  lister_->end();
}

std::string markdown(const std::vector<MemberTable::Object>& objects) {
  std::string text = "| of | member | type | unit | meaning |\n|---|---|---|---|---|\n";
  for (const MemberTable::Object& object : objects) {
    std::string of = object.is_answer ? "**" + object.name + "**" : object.name;
    for (const MemberTable::Row& row : object.rows) {
      text += fmt::format("| {} | `{}` | {}{} | {} | {} |\n", of, row.member, row.type,
                          row.may_be_missing ? "; may be missing" : "", row.unit, row.meaning);
    }
  }
  return text;
}

}  // namespace weir::control
