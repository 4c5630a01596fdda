#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "common/log/progress_line.h"
#include "common/progress.h"
#include "control/ctl/client.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/merged.h"
#include "control/policy/feeds/entry_text.h"
#include "control/tell/answer/list.h"

namespace weir::control::ctl {

namespace cmd_export {

struct Arguments {
  std::string name;
  std::string merged;
};

// The addresses of one family that a list compares with one side of a packet, page by page. Entries that ask for more,
// a port or a flow, are passed over.
template <class Addr>
class Addresses {
 public:
  Addresses(const Context& context, const ListDetails& list, uint8_t side, Progress& progress, bool& failed)
      : context_(context), list_(list), side_(side), progress_(progress), failed_(failed) {}

  std::optional<Range<Addr>> next() {
    while (!failed_) {
      for (; at_ < page_.size(); at_++) {
        if (const auto range = range_of(page_[at_])) return at_++, range;
      }
      if (is_last_ || !fetch()) break;
    }
    return std::nullopt;
  }

 private:
  std::optional<Range<Addr>> range_of(std::string_view text) const {
    // An entry that names its side; what follows a second blank asks for more.
    const bool names_it = text.starts_with("src ") || text.starts_with("dst ");
    if (names_it && text.starts_with("src ") != (side_ == WEIR_AS_SOURCE)) return std::nullopt;
    if (!names_it && (list_.match & side_) == 0) return std::nullopt;
    if (names_it) text.remove_prefix(4);
    const EntryText parsed = parse_entry(text);
    const auto* entry = std::get_if<ParsedEntry<Addr>>(&parsed);
    if (entry == nullptr || entry->port != 0) return std::nullopt;
    return Range<Addr>{entry->first, entry->last};
  }

  bool fetch() {
    Request wanted{"export"};
    wanted.name = list_.name;
    wanted.after = after_;
    const std::optional<Document> document = ask(context_, wanted);
    const Result<ExportAnswer> answer =
        document ? read_json<ExportAnswer>(*document) : Result<ExportAnswer>(Error{"controld is gone"});
    if (!answer) {
      if (document) (void)is_printed({context_.socket, false}, *document);
      failed_ = true;
      return false;
    }
    page_ = answer->entries;
    progress_.add(page_.size());
    at_ = 0;
    after_ = answer->next.empty() ? std::nullopt : std::optional<std::string>(answer->next);
    is_last_ = !after_;
    return true;
  }

  const Context& context_;
  const ListDetails& list_;
  const uint8_t side_;
  Progress& progress_;
  bool& failed_;
  std::vector<std::string> page_;
  size_t at_ = 0;
  std::optional<std::string> after_;
  bool is_last_ = false;
};

template <class Addr>
Union<Addr> union_of(const Context& context, const std::vector<ListDetails>& lists, const char* action, uint8_t side,
                     Progress& progress, bool& failed) {
  std::vector<NextRange<Addr>> all;
  for (const ListDetails& list : lists) {
    if (list.action != action || list.mode != "enforce") continue;
    const auto addresses = std::make_shared<Addresses<Addr>>(context, list, side, progress, failed);
    all.push_back([addresses] { return addresses->next(); });
  }
  return Union<Addr>(std::move(all));
}

template <class Addr>
void print_merged(const Context& context, const std::vector<ListDetails>& lists, uint8_t side, Progress& progress,
                  bool& failed) {
  Union<Addr> drops = union_of<Addr>(context, lists, "drop", side, progress, failed);
  Union<Addr> passes = union_of<Addr>(context, lists, "pass", side, progress, failed);
  subtract<Addr>(drops, passes, [&](Range<Addr> range) {
    if (failed) return;
    visit_prefixes<Addr>(range, [&](Addr first, unsigned bits) {
      const bool is_host = bits == kAddrBits<Addr>;
      const std::string text = is_host ? to_string(first) : fmt::format("{}/{}", to_string(first), bits);
      context.json ? print("\"{}\"\n", text) : print("{}\n", text);
    });
  });
}

int run(const Context& context, const Arguments& arguments) {
  Request asked{"list"};
  if (!arguments.name.empty()) asked.name = arguments.name;
  const std::optional<Document> document = ask(context, asked);
  if (!document) return kUnreachable;
  if (document->contains("error")) return (void)is_printed(context, *document), kFailed;
  const Result<ListAnswer> known = read_json<ListAnswer>(*document);
  if (!known) return not_understood(known.error());
  Progress progress;  // a terminal that the entries go to shows it by itself
  progress.begin("export", "entries");
  for (const ListDetails& list : known->lists) progress.expect(list.entries);
  const log::ProgressLine line(progress, !context.quiet && !context.json && isatty(STDOUT_FILENO) != 1);
  if (!arguments.merged.empty()) {
    bool failed = false;
    const uint8_t side = arguments.merged == "src" ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION;
    print_merged<Ipv4>(context, known->lists, side, progress, failed);
    progress.begin("export, IPv6", "entries", progress.of);
    print_merged<Ipv6>(context, known->lists, side, progress, failed);
    return failed ? kFailed : kOk;
  }
  for (const ListDetails& list : known->lists) {
    Request wanted{"export"};
    wanted.name = list.name;
    if (!context.json) print("# list {}: {}{}\n", list.name, list.action, list.mode == "monitor" ? ", monitored" : "");
    const int code = request_pages<ExportAnswer>(context, wanted, [&progress](const ExportAnswer& page) {
      progress.add(page.entries.size());
      for (const std::string& entry : page.entries) print("{}\n", entry);
    });
    if (code != kOk) return code;
  }
  return kOk;
}

Run configure(Options& options) {
  auto arguments = std::make_shared<Arguments>();
  options.argument("NAME", arguments->name, "only this list");
  options
      .text("--merged", "SIDE", arguments->merged,
            "the addresses that drop as source (src) or destination (dst) of a packet, of all lists together, in the "
            "fewest prefixes; those of pass lists are left out")
      .one_of({"src", "dst"});
  return [arguments](const Context& context) { return run(context, *arguments); };
}

}  // namespace cmd_export

const Command kExport = {"export",
                         Group::look,
                         "what is enforced, one entry a line, as `add` and feeds take them",
                         "List by list, each after a line with its name; what has ended is left out. --merged tells "
                         "addresses alone: entries "
                         "with ports and flows are no part of it.\n\nWith --json every line is a page, an object of "
                         "its own; merged, a text.",
                         cmd_export::configure,
                         [](MemberTable& table) { table.add<ExportAnswer>("export"); }};

}  // namespace weir::control::ctl
