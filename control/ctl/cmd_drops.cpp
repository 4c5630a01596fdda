#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "common/clock.h"
#include "control/ctl/client.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/text.h"
#include "control/policy/read/frame_filter.h"
#include "control/tell/answer/drops.h"

namespace weir::control::ctl {

namespace cmd_drops {

constexpr unsigned kMostRate = 1'000'000;

struct Asked {
  bool follow = false;
  std::string filter, list;
  unsigned rate = 1000;  // lines a second
  unsigned last = 20;
};

std::string text_of(const DropLine& line) {
  std::string why = line.reason == "list" ? fmt::format("list {}", line.list) : line.reason;
  if (line.entry) {
    why += fmt::format(
        ", {} ({})", line.entry->entry,
        line.entry->line == 0 ? line.entry->file : fmt::format("{}:{}", line.entry->file, line.entry->line));
  }
  std::string where = line.interface.empty() ? fmt::format("{} port {}", line.target, line.port) : line.interface;
  std::string text = fmt::format("{}  {}  {} bytes, {}", line.time, line.packet ? line.packet->text : "no IP packet",
                                 line.frame_bytes, where);
  if (line.packet && line.packet->layer > 1) text += fmt::format(", layer {}", line.packet->layer);
  text += fmt::format("  {}", why);
  if (line.one_in > 1) text += fmt::format("  (1 of {})", line.one_in);
  return text;
}

// Prints drops as they come, and says what does not.
class Printer {
 public:
  // last: the newest so many are printed, at the end; 0: all of them, as they come.
  Printer(const Context& context, unsigned rate, unsigned last) : context_(context), rate_(rate), last_(last) {}

  // Prints the newest lines, and how many came before them.
  void show_newest() {
    for (const std::string& line : kept_) print("{}\n", line);
    const size_t before = taken_ - kept_.size();
    if (before != 0) print("(left out: {} earlier ones; --last {} shows all)\n", before, taken_);
    kept_.clear();
    taken_ = 0;
  }
  void take(const DropsAnswer& page) {
    if (is_begun_) {
      gap_.limited += page.counts.limited - std::min(page.counts.limited, limited_);
      gap_.lost += page.counts.lost - std::min(page.counts.lost, lost_);
    }
    gap_.missed += page.missed;
    limited_ = page.counts.limited;
    lost_ = page.counts.lost;
    is_begun_ = true;
    for (const DropLine& line : page.drops) show(line);
    tell_gap();
    fflush(stdout);
  }
  // controld is another one: it counts anew.
  void begin_anew() { is_begun_ = false; }

  // Once a second at most. at_end: now.
  void tell_gap(bool at_end = false) {
    if (!gap_.any() || (!at_end && Clock::now() < next_gap_)) return;
    std::string text = "not shown:";
    const char* separator = " ";
    for (const auto& [n, what] :
         {std::pair{gap_.limited, "past a limit of their list"}, std::pair{gap_.lost, "lost on the way to controld"},
          std::pair{gap_.missed, "no longer kept when they were asked for"},
          std::pair{gap_.past_rate, "past --rate"}}) {
      if (n == 0) continue;
      text += fmt::format("{}{} samples {}", separator, n, what);
      separator = ", ";
    }
    gap_.gap = text;
    if (context_.json) {
      print("{}", write_json(gap_).line());
    } else {
      print("{}\n", text);
    }
    fflush(stdout);
    gap_ = {};
    next_gap_ = Clock::now() + std::chrono::seconds(1);
  }

 private:
  void show(const DropLine& line) {
    if (last_ != 0) {
      kept_.push_back(text_of(line));
      taken_++;
      if (kept_.size() > last_) kept_.pop_front();
      return;
    }
    const Clock::time_point now = Clock::now();
    if (now - second_ >= std::chrono::seconds(1)) {
      second_ = now;
      in_second_ = 0;
    }
    if (in_second_ >= rate_) {
      gap_.past_rate++;
      return;
    }
    in_second_++;
    if (context_.json) {
      print("{}", write_json(line).line());
    } else {
      print("{}\n", text_of(line));
    }
  }

  const Context& context_;
  const unsigned rate_, last_;
  std::deque<std::string> kept_;  // for the end
  size_t taken_ = 0;
  DropGap gap_;
  uint64_t limited_ = 0, lost_ = 0;
  bool is_begun_ = false;
  Clock::time_point second_, next_gap_;
  unsigned in_second_ = 0;
};

// A page. Empty: there is none, and code says what that means; the user was told.
std::optional<DropsAnswer> read_page(const Context& context, const Request& wanted, bool is_patient, int& code) {
  Patience patience;
  patience.is_quiet = true;
  Result<Document> document = call_controld(context.socket, wanted, patience);
  code = kUnreachable;
  if (!document) {
    if (!is_patient) (void)fail(context, document.error());
    return std::nullopt;
  }
  code = kFailed;
  if (const std::optional<std::string> error = document->text("error")) {
    if (context.json) print("{}", document->line());
    print(stderr, "controlctl: {}\n", *error);
    return std::nullopt;
  }
  Result<DropsAnswer> page = read_json<DropsAnswer>(*document);
  if (page) return std::move(*page);
  code = not_understood(page.error());
  return std::nullopt;
}

std::string id_in(const std::string& place) {
  return place.substr(0, place.find('-'));
}

// Until the user ends it, whatever becomes of controld.
int follow(const Context& context, Request wanted, Printer& printer) {
  constexpr std::chrono::seconds kPause{1};
  wanted.follow = true;
  wanted.after = "now";
  bool is_away = false, is_first = true;
  while (true) {
    int code = kOk;
    const std::optional<DropsAnswer> page = read_page(context, wanted, !is_first, code);
    if (!page && (code != kUnreachable || is_first)) return code;
    if (!page) {
      if (!is_away) print(stderr, "controlctl: controld does not answer: waiting for it\n");
      is_away = true;
      std::this_thread::sleep_for(kPause);
      continue;
    }
    if (is_away) print(stderr, "controlctl: controld answers again\n");
    is_away = is_first = false;
    if (wanted.after != "now" && id_in(page->next) != id_in(*wanted.after)) printer.begin_anew();
    printer.take(*page);
    wanted.after = page->next;
  }
}

int print_kept(const Context& context, Request wanted, Printer& printer) {
  bool any = false;
  while (true) {
    int code = kOk;
    const std::optional<DropsAnswer> page = read_page(context, wanted, false, code);
    if (!page) {
      printer.show_newest();
      return code;
    }
    printer.take(*page);
    any = any || !page->drops.empty();
    if (!page->more) {
      printer.show_newest();
      printer.tell_gap(true);
      if (!any && !page->sampling && !context.quiet) {
        print(stderr,
              "controlctl: nothing is sampled now: `drops --follow`, or `capture` in the policy, has it done\n");
      }
      return kOk;
    }
    wanted.after = page->next;
  }
}

int run(const Context& context, const Asked& asked) {
  const Result<FrameFilter> filter = FrameFilter::compile(asked.filter);
  if (!filter) {
    (void)fail(context, fmt::format("--filter `{}`: {}", asked.filter, filter.error()));
    return kFailed;
  }
  Request wanted = {"drops"};
  if (!asked.list.empty()) wanted.name = asked.list;
  if (!asked.filter.empty()) wanted.filter = filter->program_text();
  Printer printer(context, asked.rate, asked.follow || context.json ? 0 : asked.last);
  return asked.follow ? follow(context, std::move(wanted), printer) : print_kept(context, std::move(wanted), printer);
}

Run configure(Options& options) {
  auto asked = std::make_shared<Asked>();
  options.flag("--follow", asked->follow, "go on with what is dropped from now on, until Ctrl-C");
  options.text("--filter", "EXPR", asked->filter, "only frames that this matches, as pcap-filter(7)");
  options.text("--list", "NAME", asked->list, "only what this list drops");
  options.number("--last", "N", asked->last, "the newest N of those that controld keeps; with --json all")
      .range(1, 1'000'000);
  options.number("--rate", "N", asked->rate, "lines a second at most; the others are counted").range(1, kMostRate);
  return [asked](const Context& context) { return run(context, *asked); };
}

}  // namespace cmd_drops

const Command kDrops = {
    "drops",
    Group::everyday,
    "what is dropped, packet by packet, with the entry that drops it",
    "The newest samples that controld keeps; with --follow, those that come. A line each, with --json an "
    "object a line. Where\nthe policy has a section capture, it says what is sampled; else samples are "
    "taken while somebody follows.",
    cmd_drops::configure,
    [](MemberTable& table) {
      table.add<DropsAnswer>("drops");
      table.add<DropGap>("drops --follow");
    }};

}  // namespace weir::control::ctl
