#include "control/policy/read/target_spec.h"

#include <net/if.h>
#include <sys/un.h>

#include <algorithm>
#include <iterator>

#include "common/wire.h"
#include "control/policy/read/policy_file.h"

namespace weir::control {

namespace {

using yaml::Kind;
using yaml::MapReader;
using yaml::Node;

constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr size_t kMaxInterfaceName = IFNAMSIZ - 1;
constexpr const char* kDataplaneExample = "as in `- dataplane: /run/weir/dataplane.sock`";

// Empty: it is one (dev_valid_name of net/core/dev.c).
std::string why_no_interface(const std::string& name) {
  if (name.empty()) return "the name of the interface is empty";
  if (name.size() > kMaxInterfaceName) return quoted(name) + " is longer than the name of an interface can be";
  const bool valid = name != "." && name != ".." && name.find_first_of("/: \t\n\v\f\r") == std::string::npos;
  return valid ? "" : quoted(name) + " is not a name of an interface";
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_named(const std::vector<TargetSpec>& targets, const std::string& name) {
  return std::any_of(targets.begin(), targets.end(), [&](const TargetSpec& target) { return target.name == name; });
}

const Node* find_dataplane(MapReader& target) {
  return target.text("dataplane") ? target.find("dataplane") : nullptr;
}

void read_dataplane(const PolicyFile& file, MapReader&, const Node& node, std::vector<TargetSpec>& targets) {
  const std::string& path = node.text;
  if (path.empty()) {
    file.error(node, "the path of the socket is empty", kDataplaneExample);
  } else if (path.size() > kMaxSocketPath) {
    file.error(node, quoted(path) + " is longer than a socket's path can be",
               "choose one of at most " + std::to_string(kMaxSocketPath) + " bytes");
  } else if (is_named(targets, path)) {
    file.error(node, quoted(path) + " is a target already", "name each target once");
  } else {
    targets.push_back(dataplane_target(path));
  }
}

Result<TargetSpec> dataplane_of(std::string_view path) {
  if (path.empty() || path.size() > kMaxSocketPath) {
    return Error{"a socket's path has 1 to " + std::to_string(kMaxSocketPath) + " bytes"};
  }
  return dataplane_target(std::string(path));
}

const Node* find_xdp(MapReader& target) {
  return target.map("xdp");
}

void read_interface(const PolicyFile& file, const Node& item, std::vector<std::string>& interfaces) {
  if (item.kind != Kind::scalar) {
    file.error(item, "an interface must be a text", "write its name, as in interfaces: [eth0]");
  } else if (const std::string why = why_no_interface(item.text); !why.empty()) {
    file.error(item, why, "1 to 15 characters, no blanks, no / and no : (`ip link` lists them)");
  } else if (contains(interfaces, item.text)) {
    file.error(item, quoted(item.text) + " is named twice", "name each interface once");
  } else {
    interfaces.push_back(item.text);
  }
}

void read_xdp(const PolicyFile& file, MapReader& target, const Node&, std::vector<TargetSpec>& targets) {
  MapReader section = target.section("xdp");
  section.require("interfaces");
  const Node* items = section.sequence("interfaces");
  Attach attach = Attach::any;
  section.take("attach", attach);
  section.finish();
  if (items == nullptr) return;
  std::vector<std::string> interfaces;
  for (const Node& item : items->items) read_interface(file, item, interfaces);
  if (items->items.size() > wire::kMaxInterfaces) {
    file.error(*items, "more than " + std::to_string(wire::kMaxInterfaces) + " interfaces",
               "leave out those that need no filter");
  } else if (items->items.empty()) {
    file.warning(*items, "no interfaces: the maps are kept for programs that net_af_xdp attaches, nothing else",
                 "to filter what comes in by an interface, name it, as in interfaces: [eth0]");
  }
  targets.push_back(xdp_target(std::move(interfaces), attach));
}

Result<TargetSpec> xdp_of(std::string_view rest) {
  std::vector<std::string> interfaces;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string name(rest.substr(0, comma));
    if (const std::string why = why_no_interface(name); !why.empty()) return Error{why};
    if (contains(interfaces, name)) return Error{quoted(name) + " is named twice"};
    interfaces.push_back(name);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) return Error{why_no_interface("")};
  }
  if (interfaces.size() > wire::kMaxInterfaces) return Error{"more than 256 interfaces"};
  return xdp_target(std::move(interfaces), Attach::any);
}

// How a kind of target is written.
struct Writing {
  TargetKind kind;
  const Node* (*find)(MapReader& target);  // its member in the map of a target; null: none, or an error that was told
  void (*read)(const PolicyFile& file, MapReader& target, const Node& member, std::vector<TargetSpec>& targets);
  std::string_view prefix;  // of an option's text
  Result<TargetSpec> (*from_text)(std::string_view after_prefix);
};
constexpr Writing kWritings[] = {
    {TargetKind::xdp, find_xdp, read_xdp, "xdp:", xdp_of},
    {TargetKind::dataplane, find_dataplane, read_dataplane, "", dataplane_of},  // last: its prefix fits every text
};

void read_target(const PolicyFile& file, const Node& node, std::vector<TargetSpec>& targets,
                 bool (&seen)[kTargetKinds]) {
  const size_t errors = file.diagnostics.errors();
  MapReader target(file.document, &node, target_section(), file.diagnostics);
  const Writing* writing = nullptr;
  const Node* member = nullptr;
  size_t kinds = 0;
  for (const Writing& known : kWritings) {
    const Node* found = known.find(target);
    if (found == nullptr) continue;
    writing = &known;
    member = found;
    kinds++;
  }
  target.finish();
  if (kinds > 1) {
    file.error(node, "the target is a data plane and `xdp` in one", "write two targets, each behind a `-` of its own");
    return;
  }
  if (kinds == 0) {
    if (file.diagnostics.errors() == errors) file.error(node, "the target is empty", kDataplaneExample);
    return;
  }
  const TargetTraits& traits = traits_of(writing->kind);
  bool& is_second = seen[static_cast<size_t>(writing->kind)];
  if (traits.only_one && is_second) {
    file.error(*member, std::string("a second ") + traits.name + " target", "name all interfaces in one target");
  }
  is_second = true;
  writing->read(file, target, *member, targets);
}

}  // namespace

Result<TargetSpec> target_of(std::string_view text) {
  for (const Writing& writing : kWritings) {
    if (text.starts_with(writing.prefix)) return writing.from_text(text.substr(writing.prefix.size()));
  }
  return Error{"no kind of target is written so"};  // the last one takes every text
}

Result<std::vector<TargetSpec>> targets_of(std::span<const std::string> texts) {
  std::vector<TargetSpec> targets;
  for (const std::string& text : texts) {
    Result<TargetSpec> target = target_of(text);
    if (!target) return Error{text + ": " + target.error()};
    const auto same = [&](const TargetSpec& other) { return other.kind == target->kind; };
    const TargetTraits& traits = traits_of(target->kind);
    if (traits.only_one && std::any_of(targets.begin(), targets.end(), same)) {
      return Error{text + ": a second " + traits.name + " target; name all interfaces in one"};
    }
    targets.push_back(std::move(*target));
  }
  return targets;
}

std::vector<TargetSpec> read_targets(const PolicyFile& file, const Node& sequence) {
  std::vector<TargetSpec> targets;
  bool seen[kTargetKinds] = {};
  for (const Node& target : sequence.items) read_target(file, target, targets, seen);
  return targets;
}

}  // namespace weir::control
