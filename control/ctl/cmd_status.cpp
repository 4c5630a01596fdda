#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "control/ctl/command.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"

namespace weir::control::ctl {

namespace {

bool is_everywhere(const Json& target) {
  if (!target.contains("interfaces")) return true;
  const Json& interfaces = target.at("interfaces");
  return std::all_of(interfaces.begin(), interfaces.end(), [](const Json& i) { return i.at("attached").get<bool>(); });
}

void show_interfaces(const Json& targets) {
  Table table({{"interface"}, {"state"}, {""}});
  for (const Json& target : targets) {
    if (!target.contains("interfaces")) continue;
    const bool connected = target.at("connected").get<bool>();
    for (const Json& interface : target.at("interfaces")) {
      const std::string mode = interface.at("mode").get<std::string>();
      const std::string state = interface.at("attached").get<bool>() ? "attached, " + mode : "NOT ATTACHED";
      const std::string error = interface.at("error").get<std::string>();
      const char* remark = mode == "generic" ? "behind the driver: slower than native" : "";
      table.row({interface.at("name").get<std::string>(), (connected ? "" : "last known: ") + state,
                 error.empty() ? remark : error});
    }
  }
  if (!table.empty()) fmt::print("\n{}", table.text());
}

void show_targets(const Json& targets) {
  Table table({{"target"},
               {"state"},
               {"generation"},
               {"workers", Table::Align::right},
               {"ports", Table::Align::right},
               {"isa"},
               {"snapshot", Table::Align::right},
               {"of", Table::Align::right},
               {"pages"},
               {"started"}});
  for (const Json& target : targets) {
    const bool connected = target.at("connected").get<bool>();
    const bool known = target.at("start_time").get<int64_t>() != 0;  // reached once
    std::string state = !connected ? "away" : target.at("acknowledged").get<bool>() ? "enforces" : "BEHIND";
    if (connected && !is_everywhere(target)) state += ", NOT EVERYWHERE";
    if (target.at("bypass").get<bool>()) state += ", BYPASS";
    table.row({target.at("socket").get<std::string>(), state,
               std::to_string(target.at("generation").at("number").get<uint64_t>()),
               std::to_string(target.at("workers").get<uint64_t>()), std::to_string(target.at("ports").get<uint64_t>()),
               target.at("isa").get<std::string>(), bytes(target.at("snapshot_bytes").get<uint64_t>()),
               bytes(target.at("snapshot_limit_bytes").get<uint64_t>()),
               !known || target.contains("interfaces") ? ""
               : target.at("huge_pages").get<bool>()   ? "huge"
                                                       : "4 KiB",
               age(target.at("start_time").get<int64_t>())});
  }
  fmt::print("\n{}", table.text());
  for (const Json& target : targets) {
    const std::string error = target.at("last_error").get<std::string>();
    if (!error.empty()) fmt::print("{}: {}\n", target.at("socket").get<std::string>(), error);
  }
  show_interfaces(targets);
}

void show_shapes(const Json& shapes) {
  Table table({{"shape"},
               {"keys", Table::Align::right},
               {"filter", Table::Align::right},
               {"k", Table::Align::right},
               {"bits/key", Table::Align::right},
               {"layout"}});
  for (const Json& shape : shapes) {
    table.row({shape.at("name").get<std::string>(), count(shape.at("keys").get<uint64_t>()),
               bytes(shape.at("filter_bytes").get<uint64_t>()), std::to_string(shape.at("k").get<uint64_t>()),
               bits_per_key_text(shape), layout_text(shape)});
  }
  if (!table.empty()) fmt::print("\n{}", table.text());
}

void show_limits(const Json& limits) {
  Table table({{"limit"}, {"used", Table::Align::right}, {"max", Table::Align::right}});
  for (const auto& [name, limit] : limits.items()) {
    const bool size = name.ends_with("_bytes");
    const uint64_t used = limit.at("used").get<uint64_t>(), max = limit.at("max").get<uint64_t>();
    const std::string limit_text = max == 0 ? "unknown" : size ? bytes(max) : count(max);
    table.row({size ? name.substr(0, name.size() - 6) : name, size ? bytes(used) : count(used), limit_text});
  }
  fmt::print("\n{}", table.text());
}

void show(const Json& answer) {
  if (answer.at("bypass").get<bool>()) fmt::print("BYPASS IS ON: everything passes, until `controlctl bypass off`\n");
  fmt::print("controld {}, pid {}\npolicy      {}\nstate       {}\n", answer.at("version").get<std::string>(),
             answer.at("pid").get<int>(), answer.at("config").get<std::string>(),
             answer.at("state_dir").get<std::string>());
  fmt::print("generation  {}, published {}{}\nentries     {}\nmemory      {}, at most {} so far\n",
             generation_text(answer.at("generation")), age(answer.at("published_at").get<int64_t>()),
             answer.at("from_last_good").get<bool>() ? ", FROM LAST GOOD" : "",
             count(answer.at("entries").get<uint64_t>()), bytes(answer.at("memory").at("rss_bytes").get<uint64_t>()),
             bytes(answer.at("memory").at("peak_bytes").get<uint64_t>()));

  const Json& reload = answer.at("last_reload");
  const std::string when = age(reload.at("at").get<int64_t>());
  const uint64_t errors = reload.at("errors").get<uint64_t>();
  if (reload.at("ok").get<bool>()) {
    fmt::print("last reload {}, {}\n", when, milliseconds(reload.at("total_ms").get<double>()));
  } else {
    fmt::print("last reload {}, FAILED: {}\n", when,
               errors != 0 ? plural(errors, "error") + " in the policy" : reload.value("error", ""));
    for (const Json& diagnostic : reload.at("diagnostics")) {
      if (diagnostic.at("severity") != "error") continue;
      fmt::print("  {}:{}: {}\n", diagnostic.at("file").get<std::string>(), diagnostic.at("line").get<uint32_t>(),
                 diagnostic.at("message").get<std::string>());
      if (errors > 1) fmt::print("  `controlctl check` shows all of them\n");
      break;
    }
  }
  fmt::print("capture     {}\n", capture_text(answer.at("capture")));
  show_targets(answer.at("targets"));
  show_shapes(answer.at("shapes"));
  show_limits(answer.at("limits"));
}

int run(const Context& context) {
  return request(context, {{"command", "status"}}, show);
}

}  // namespace

const Command kStatus = {"status", "what is enforced where, the last reload, limits and memory", nullptr, run};

}  // namespace weir::control::ctl
