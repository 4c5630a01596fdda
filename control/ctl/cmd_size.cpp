#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>

#include "control/compile/plan/levels.h"
#include "control/compile/plan/size.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/text.h"
#include "filter/layouts/layout.h"
#include "filter/probe/calibrate.h"

// Needs no controld and no policy: what so many keys at such a rate would take, and cost a packet.
namespace weir::control::ctl {

namespace cmd_size {

struct Asked {
  std::string entries;
  std::string fpr = "0.005";
  std::string shape = "v4";
  std::string layout = "auto";
  bool all = false;
  bool no_calibration = false;
};

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
    if (layout.id != WEIR_LAYOUT_BITMAP) all.push_back(&layout);
  }
  return all;
}

Error not_one_of(const std::string& option, const std::string& value, const std::string& names) {
  return {fmt::format("--{}: `{}` is not known: it must be one of {}", option, value, names)};
}

Result<SizeQuestion> question_of(const Asked& asked) {
  SizeQuestion question;
  const Result<uint64_t> keys = parse_count(asked.entries, kMostKeys);
  if (!keys) return Error{"--entries: " + keys.error()};
  question.keys = *keys;
  const Result<double> rate = parse_rate(asked.fpr);
  if (!rate) return Error{"--fpr: " + rate.error()};
  question.false_positive_rate = *rate;

  std::string names;
  bool known = false;
  for (const NamedShape& named : kShapeNames) {
    names += (names.empty() ? "" : ", ") + std::string(named.name);
    if (asked.shape != named.name) continue;
    question.shape = named.shape;
    known = true;
  }
  if (!known) return not_one_of("shape", asked.shape, names);

  names = "auto";
  known = asked.layout == "auto";
  for (const filter::Layout* layout : choices()) {
    names += ", " + std::string(layout->name);
    if (asked.layout != layout->name) continue;
    question.layout = layout->id;
    known = true;
  }
  if (!known) return not_one_of("layout", asked.layout, names);
  return question;
}

// The cost of a lookup on this machine. line8 is measured; probe_ns() (control/compile/plan/levels.h) gives the ratio
// of the others to it.
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

Result<std::optional<Timing>> measure(const Asked& asked) {
  if (asked.no_calibration) return std::optional<Timing>();
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
  print("{} of {} at a false-positive rate of {}\n", plural(question.keys, "key"), shape,
        percent(question.false_positive_rate));
  print("layout         {}: {}; k {}, {:.1f} bits a key\n", name_of(answer.layout), answer.layout_why, answer.k,
        answer.bits_per_key);
  print("filter         {}\nexact match    {}\n", bytes(answer.filter_bytes), bytes(answer.exact_bytes));
  print("gate           {}\n", answer.gate_bytes == 0 ? "open" : bytes(answer.gate_bytes) + ", of one side");
  print("snapshot       {}, {} of 2 MiB\n", bytes(answer.total_bytes), plural(answer.huge_pages, "huge page"));
  print("keys a page    {}; outside is no accident (8 sigma)\n", page_text(answer.per_page));
  print("false hits     {}\n", percent(answer.rate));
  if (!timing) return;
  print(
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
        bytes(answer->filter_bytes), bytes(answer->total_bytes), percent(answer->rate)};
    if (timing) row.push_back(fmt::format("{:.1f}", timing->pipelined(*answer)));
    table.row(std::move(row));
  }
  print("\n{}{}", table.text(), impossible);
}

// Four digits: the last ones of a 64-bit number differ from one C library to the next.
double four_digits(double value) {
  if (value == 0) return 0;
  const double unit = std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * unit) / unit;
}

struct PageKeys {
  double mean = 0, low = 0, high = 0;
};

struct SizeNumbers {
  std::string layout_why;
  unsigned k = 0;
  double bits_per_key = 0;
  uint64_t keys = 0, filter_bytes = 0, exact_bytes = 0, gate_bytes = 0, snapshot_bytes = 0, huge_pages = 0;
  PageKeys per_page;
  double fpr = 0;
  std::optional<double> pipelined_ns, sync_ns;
};

struct SizeOfLayout {
  std::string layout;
  std::optional<SizeNumbers> numbers;
  std::string error;
};

struct MeasuredPoint {
  uint64_t filter_bytes = 0;
  double sync_ns = 0, pipelined_ns = 0;
  unsigned look_ahead = 0;
};

struct Measured {
  std::string isa;
  unsigned look_ahead = 0;
  bool huge_pages = false;
  std::vector<MeasuredPoint> points;
};

struct SizeReport {
  bool ok = true;
  std::string version = WEIR_VERSION;
  std::string shape;
  double false_positive_rate = 0;
  SizeOfLayout size;
  std::optional<Measured> calibration;
  std::optional<std::vector<SizeOfLayout>> layouts;
};

void members(Fields& f, PageKeys& keys) {
  f({"mean", "keys", "of a page"}, keys.mean);
  f({"low", "keys", "fewer are no accident (8 sigma)"}, keys.low);
  f({"high", "keys", "more are no accident (8 sigma)"}, keys.high);
}

void members(Fields& f, SizeNumbers& numbers) {
  f({"layout_why", "", "why this layout"}, numbers.layout_why);
  f({"k", "bits", "of a key in the filter"}, numbers.k);
  f({"bits_per_key", "bits", "of the filter, for each key"}, numbers.bits_per_key);
  f({"keys", "", "as asked"}, numbers.keys);
  f({"filter_bytes", "bytes", "of the filter"}, numbers.filter_bytes);
  f({"exact_bytes", "bytes", "of the exact stage"}, numbers.exact_bytes);
  f({"gate_bytes", "bytes", "of the gate of one side, for keys that lie anywhere"}, numbers.gate_bytes);
  f({"snapshot_bytes", "bytes", "of the snapshot"}, numbers.snapshot_bytes);
  f({"huge_pages", "", "of 2 MiB that it fills"}, numbers.huge_pages);
  f.object({"keys_per_page", "", "with as many keys"}, numbers.per_page, "keys per page");
  f({"fpr", "share", "expected false positives, 0 to 1"}, numbers.fpr);
  f.maybe({"pipelined_ns", "ns", "a lookup among others, on this machine"}, numbers.pipelined_ns);
  f.maybe({"sync_ns", "ns", "a lookup alone, on this machine"}, numbers.sync_ns);
}

void members(Fields& f, SizeOfLayout& size) {
  f({"layout", "", "of the filter"}, size.layout);
  f.group("layout_why", size.numbers);
  f.unless_empty({"error", "", "why this layout cannot keep the rate"}, size.error);
}

void members(Fields& f, MeasuredPoint& point) {
  f({"filter_bytes", "bytes", "of the filter that was measured"}, point.filter_bytes);
  f({"sync_ns", "ns", "a lookup alone"}, point.sync_ns);
  f({"pipelined_ns", "ns", "a lookup among others"}, point.pipelined_ns);
  f({"look_ahead", "keys", "on their way at once"}, point.look_ahead);
}

void members(Fields& f, Measured& measured) {
  f({"isa", "", "of the filter kernels"}, measured.isa);
  f({"look_ahead", "keys", "on their way at once"}, measured.look_ahead);
  f({"huge_pages", "", "the filters lay in huge pages"}, measured.huge_pages);
  f.array({"points", "", "by size"}, measured.points, "calibration point");
}

void members(Fields& f, SizeReport& report) {
  f({"ok", "", "always true"}, report.ok);
  f({"version", "", "of controlctl"}, report.version);
  f({"shape", "", "as asked"}, report.shape);
  f({"false_positive_rate", "share", "as asked"}, report.false_positive_rate);
  members(f, report.size);
  f.maybe_object({"calibration", "", "what lookups cost on this machine"}, report.calibration, "calibration");
  f.maybe_array({"layouts", "", "with --all: what every layout would take"}, report.layouts, "size of a layout");
}

PageKeys four_digits(const KeysPerPage& keys) {
  return {four_digits(keys.mean), four_digits(keys.low), four_digits(keys.high)};
}

SizeOfLayout size_of(const SizeAnswer& answer, const std::optional<Timing>& timing) {
  SizeNumbers numbers;
  numbers.layout_why = answer.layout_why;
  numbers.k = answer.k;
  numbers.bits_per_key = four_digits(answer.bits_per_key);
  numbers.keys = answer.keys;
  numbers.filter_bytes = answer.filter_bytes;
  numbers.exact_bytes = answer.exact_bytes;
  numbers.gate_bytes = answer.gate_bytes;
  numbers.snapshot_bytes = answer.total_bytes;
  numbers.huge_pages = answer.huge_pages;
  numbers.per_page = four_digits(answer.per_page);
  numbers.fpr = four_digits(answer.rate);
  if (timing) {
    numbers.pipelined_ns = four_digits(timing->pipelined(answer));
    numbers.sync_ns = four_digits(timing->sync(answer));
  }
  return {name_of(answer.layout), numbers, ""};
}

Measured measured_of(const Timing& timing) {
  const filter::Calibration& calibration = timing.calibration;
  Measured measured{timing.isa, calibration.look_ahead, calibration.huge_pages, {}};
  for (const filter::CalibrationPoint& point : calibration.points) {
    measured.points.push_back(
        {point.filter_bytes, four_digits(point.sync_ns), four_digits(point.pipelined_ns), point.look_ahead});
  }
  return measured;
}

SizeReport report(const Asked& asked, const SizeQuestion& question, const SizeAnswer& answer,
                  const std::optional<Timing>& timing) {
  SizeReport report;
  report.shape = asked.shape;
  report.false_positive_rate = question.false_positive_rate;
  report.size = size_of(answer, timing);
  if (timing) report.calibration = measured_of(*timing);
  if (!asked.all) return report;
  report.layouts.emplace();
  for (const filter::Layout* layout : choices()) {
    SizeQuestion other = question;
    other.layout = layout->id;
    const Result<SizeAnswer> size = size_table(other);
    report.layouts->push_back(size ? size_of(*size, timing)
                                   : SizeOfLayout{std::string(layout->name), std::nullopt, size.error()});
  }
  return report;
}

int fail(const std::string& error, int code) {
  print(stderr, "controlctl size: {}\n", error);
  return code;
}

int run(const Context& context, const Asked& asked) {
  const Result<SizeQuestion> question = question_of(asked);
  if (!question) return fail(question.error(), kUsage);
  const Result<SizeAnswer> answer = size_table(*question);
  if (!answer) return fail(answer.error() + "\nhint: raise --fpr, or leave --layout to the planner", kFailed);
  const Result<std::optional<Timing>> timing = measure(asked);
  if (!timing) return fail(timing.error(), kFailed);
  if (context.json) {
    print("{}", write_json(report(asked, *question, *answer, *timing)).line());
    return kOk;
  }
  show(*question, asked.shape, *answer, *timing);
  if (asked.all) show_all(*question, *timing);
  return kOk;
}

Run configure(Options& options) {
  auto asked = std::make_shared<Asked>();
  options.text("--entries", "N", asked->entries, "how many keys: 20M, 1.5k, 2e7, 1_000_000").required();
  options.text("--fpr", "RATE", asked->fpr, "false-positive rate, 1e-9 to 0.5");
  options.text("--shape", "SHAPE", asked->shape, "v4, v4-port, v6 or v6-port").suggested = {"v4", "v4-port", "v6",
                                                                                            "v6-port"};
  Option& layout = options.text("--layout", "NAME", asked->layout, "auto, or a layout");
  layout.suggested = {"auto"};
  for (const filter::Layout* choice : choices()) layout.suggested.emplace_back(choice->name);
  options.flag("--all", asked->all, "also what every other layout would take");
  options.flag("--no-calibration", asked->no_calibration, "do not measure what a lookup costs (0.3 s)");
  return [asked](const Context& context) { return run(context, *asked); };
}

}  // namespace cmd_size

const Command kSize = {"size",
                       Group::file,
                       "what so many keys would take, and cost a packet; needs no controld",
                       "One table of so many keys, by the formulas of the planner, and what a lookup costs on this "
                       "machine:\n"
                       "    controlctl size --entries 20M --fpr 1e-4",
                       cmd_size::configure,
                       [](MemberTable& table) { table.add<cmd_size::SizeReport>("size"); }};

}  // namespace weir::control::ctl
