#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include <CLI/CLI.hpp>

#include "control/compile/plan/levels.h"
#include "control/compile/plan/size.h"
#include "control/ctl/command.h"
#include "control/ctl/text.h"
#include "filter/layouts/layout.h"
#include "filter/probe/calibrate.h"

// Needs no controld and no policy: what so many keys at such a rate would take, and cost a packet.
namespace weir::control::ctl {

namespace {

struct NamedShape {
  const char* name;
  filter::KeyShape shape;
};
constexpr NamedShape kShapeNames[] = {
    {"v4", {4, 32, false}}, {"v4-port", {4, 32, true}}, {"v6", {6, 128, false}}, {"v6-port", {6, 128, true}}};

// Layouts of hashed keys that snapshots have.
std::vector<const filter::Layout*> choices() {
  std::vector<const filter::Layout*> all;
  for (const filter::Layout& layout : filter::all_layouts()) {
    if (layout.in_snapshots && layout.id != WEIR_LAYOUT_BITMAP) all.push_back(&layout);
  }
  return all;
}

Error not_one_of(const std::string& option, const std::string& value, const std::string& names) {
  return {fmt::format("--{}: `{}` is not known: it must be one of {}", option, value, names)};
}

Result<SizeQuestion> question_of(const Context& context) {
  SizeQuestion question;
  const Result<uint64_t> keys = parse_count(context.entries, kMostKeys);
  if (!keys) return Error{"--entries: " + keys.error()};
  question.keys = *keys;
  const Result<double> rate = parse_rate(context.fpr);
  if (!rate) return Error{"--fpr: " + rate.error()};
  question.false_positive_rate = *rate;

  std::string names;
  bool known = false;
  for (const NamedShape& named : kShapeNames) {
    names += (names.empty() ? "" : ", ") + std::string(named.name);
    if (context.shape != named.name) continue;
    question.shape = named.shape;
    known = true;
  }
  if (!known) return not_one_of("shape", context.shape, names);

  names = "auto";
  known = context.layout == "auto";
  for (const filter::Layout* layout : choices()) {
    names += ", " + std::string(layout->name);
    if (context.layout != layout->name) continue;
    question.layout = layout->id;
    known = true;
  }
  if (!known) return not_one_of("layout", context.layout, names);
  return question;
}

// What a lookup costs here: line8 is measured, the others are line8 times what FILTERS 3.1 says.
struct Timing {
  std::string isa;
  filter::Calibration calibration;

  static double factor(weir_layout layout) { return probe_ns(layout) / probe_ns(WEIR_LAYOUT_LINE8); }
  double pipelined(const SizeAnswer& answer) const {
    return calibration.ns_for(answer.filter_bytes) * factor(answer.layout);
  }
  double sync(const SizeAnswer& answer) const {
    return calibration.sync_ns_for(answer.filter_bytes) * factor(answer.layout);
  }
  // Cost goes on rising past the largest size that is measured.
  bool is_lower_bound(const SizeAnswer& answer) const {
    return answer.filter_bytes > calibration.points.back().filter_bytes;
  }
};

Result<std::optional<Timing>> measure(const Context& context) {
  if (!context.calibration) return std::optional<Timing>();
  const auto kernels = filter::choose_kernels();
  if (!kernels) return Error{kernels.error()};
  auto calibration = filter::calibrate(**kernels);
  if (!calibration) return Error{calibration.error() + "\nhint: --no-calibration leaves the times out"};
  return std::optional<Timing>({std::string((*kernels)->name), std::move(*calibration)});
}

std::string name_of(weir_layout layout) {
  return std::string(filter::layout_of(layout).name);
}

std::string rounded_count(double n) {
  return count(static_cast<uint64_t>(std::llround(n)));
}

std::string page_text(const KeysPerPage& keys) {
  return fmt::format("{} ({} to {})", rounded_count(keys.mean), rounded_count(keys.low), rounded_count(keys.high));
}

void show(const SizeQuestion& question, const std::string& shape, const SizeAnswer& answer,
          const std::optional<Timing>& timing) {
  fmt::print("{} of {} at a false-positive rate of {}\n", plural(question.keys, "key"), shape,
             percent(question.false_positive_rate));
  fmt::print("layout         {}: {}; k {}, {:.1f} bits a key\n", name_of(answer.layout), answer.layout_why, answer.k,
             answer.bits_per_key);
  fmt::print("room for       {}: a quarter more, and 64 at least, for changes\n", plural(answer.max_keys, "key"));
  fmt::print("filter         {}\nexact stage    {}\n", bytes(answer.filter_bytes), bytes(answer.exact_bytes));
  fmt::print("snapshot       {}, {} of 2 MiB\n", bytes(answer.total_bytes), plural(answer.huge_pages, "huge page"));
  fmt::print("keys a page    {} now, {} when full; outside is no accident (8 sigma)\n", page_text(answer.per_page),
             page_text(answer.per_page_full));
  fmt::print("false hits     {} now, {} when full\n", percent(answer.rate), percent(answer.rate_full));
  if (!timing) return;
  fmt::print(
      "a lookup       {}{:.1f} ns pipelined (look-ahead {}), {:.1f} ns synchronous: {} on this machine, {}\n",
      timing->is_lower_bound(answer) ? "at least " : "", timing->pipelined(answer), timing->calibration.look_ahead,
      timing->sync(answer), timing->isa,
      answer.layout == WEIR_LAYOUT_LINE8 ? "measured" : fmt::format("{} times line8's", Timing::factor(answer.layout)));
}

// One row a layout; those that cannot keep the rate say so.
void show_all(const SizeQuestion& question, const std::optional<Timing>& timing) {
  std::vector<Table::Column> columns = {{"layout"},
                                        {"k", Table::Align::right},
                                        {"bits/key", Table::Align::right},
                                        {"filter", Table::Align::right},
                                        {"snapshot", Table::Align::right},
                                        {"false hits", Table::Align::right}};
  if (timing) columns.push_back({"ns/key", Table::Align::right});
  Table table(columns);
  std::string impossible;
  for (const filter::Layout* layout : choices()) {
    SizeQuestion asked = question;
    asked.layout = layout->id;
    const Result<SizeAnswer> answer = size_table(asked);
    if (!answer) {
      impossible += answer.error() + "\n";
      continue;
    }
    std::vector<std::string> row = {
        name_of(answer->layout),     std::to_string(answer->k),  fmt::format("{:.1f}", answer->bits_per_key),
        bytes(answer->filter_bytes), bytes(answer->total_bytes), percent(answer->rate_full)};
    if (timing) row.push_back(fmt::format("{:.1f}", timing->pipelined(*answer)));
    table.row(std::move(row));
  }
  fmt::print("\n{}{}", table.text(), impossible);
}

// Four digits: the last ones of a 64-bit number differ from one C library to the next.
double four_digits(double value) {
  if (value == 0) return 0;
  const double unit = std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * unit) / unit;
}

Json page_json(const KeysPerPage& keys) {
  return {{"mean", four_digits(keys.mean)}, {"low", four_digits(keys.low)}, {"high", four_digits(keys.high)}};
}

Json to_json(const SizeAnswer& answer, const std::optional<Timing>& timing) {
  Json json = {{"layout", name_of(answer.layout)},
               {"layout_why", answer.layout_why},
               {"k", answer.k},
               {"bits_per_key", four_digits(answer.bits_per_key)},
               {"keys", answer.keys},
               {"max_keys", answer.max_keys},
               {"filter_bytes", answer.filter_bytes},
               {"exact_bytes", answer.exact_bytes},
               {"snapshot_bytes", answer.total_bytes},
               {"huge_pages", answer.huge_pages},
               {"keys_per_page", page_json(answer.per_page)},
               {"keys_per_page_full", page_json(answer.per_page_full)},
               {"fpr", four_digits(answer.rate)},
               {"fpr_full", four_digits(answer.rate_full)}};
  if (timing) {
    json["pipelined_ns"] = four_digits(timing->pipelined(answer));
    json["sync_ns"] = four_digits(timing->sync(answer));
  }
  return json;
}

Json report(const Context& context, const SizeQuestion& question, const SizeAnswer& answer,
            const std::optional<Timing>& timing) {
  Json json = {{"ok", true},
               {"version", WEIR_VERSION},
               {"shape", context.shape},
               {"false_positive_rate", question.false_positive_rate}};
  json.update(to_json(answer, timing));
  if (timing) {
    json["calibration"] = {{"isa", timing->isa},
                           {"look_ahead", timing->calibration.look_ahead},
                           {"huge_pages", timing->calibration.huge_pages},
                           {"points", Json::array()}};
    for (const filter::CalibrationPoint& point : timing->calibration.points) {
      json["calibration"]["points"].push_back({{"filter_bytes", point.filter_bytes},
                                               {"sync_ns", four_digits(point.sync_ns)},
                                               {"pipelined_ns", four_digits(point.pipelined_ns)},
                                               {"look_ahead", point.look_ahead}});
    }
  }
  if (!context.all) return json;
  json["layouts"] = Json::array();
  for (const filter::Layout* layout : choices()) {
    SizeQuestion asked = question;
    asked.layout = layout->id;
    const Result<SizeAnswer> other = size_table(asked);
    json["layouts"].push_back(other ? to_json(*other, timing)
                                    : Json{{"layout", layout->name}, {"error", other.error()}});
  }
  return json;
}

int fail(const std::string& error, int code) {
  fmt::print(stderr, "controlctl size: {}\n", error);
  return code;
}

int run(const Context& context) {
  const Result<SizeQuestion> question = question_of(context);
  if (!question) return fail(question.error(), kUsage);
  const Result<SizeAnswer> answer = size_table(*question);
  if (!answer) return fail(answer.error() + "\nhint: raise --fpr, or leave --layout to the planner", kFailed);
  const Result<std::optional<Timing>> timing = measure(context);
  if (!timing) return fail(timing.error(), kFailed);
  if (context.json) {
    fmt::print("{}", to_line(report(context, *question, *answer, *timing)));
    return kOk;
  }
  show(*question, context.shape, *answer, *timing);
  if (context.all) show_all(*question, *timing);
  return kOk;
}

void options(CLI::App& app, Context& context) {
  app.add_option("--entries", context.entries, "how many keys: 20M, 1.5k, 2e7, 1_000_000")->required();
  app.add_option("--fpr", context.fpr, "false-positive rate, 1e-9 to 0.5")->capture_default_str();
  app.add_option("--shape", context.shape, "v4, v4-port, v6 or v6-port")->capture_default_str();
  app.add_option("--layout", context.layout, "auto, or a layout")->capture_default_str();
  app.add_flag("--all", context.all, "also what every other layout would take");
  app.add_flag("!--no-calibration", context.calibration, "do not measure what a lookup costs (0.3 s)");
}

}  // namespace

const Command kSize = {"size", "what so many keys would take, and cost a packet; needs no controld", options, run};

}  // namespace weir::control::ctl
