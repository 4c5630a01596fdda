#include "control/read/target_spec.h"

#include <net/if.h>
#include <sys/un.h>

#include <algorithm>
#include <iterator>

#include "common/wire.h"

namespace weir::control {

namespace {

using yaml::Kind;
using yaml::MapReader;
using yaml::Node;

constexpr std::string_view kXdpPrefix = "xdp:";
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

const Node* member(const Node& node, std::string_view key) {
  for (const auto& [name, value] : node.members) {
    if (name.text == key) return &value;
  }
  return nullptr;
}

// One target of the sequence at a time.
class TargetsReader {
 public:
  explicit TargetsReader(const PolicyFile& file) : file_(file) {}

  void read(const Node& node) {
    const size_t errors = file_.diagnostics.errors();
    MapReader target(file_.document, &node, "the target", file_.diagnostics);
    const auto path = target.text("dataplane");
    const Node* xdp = target.map("xdp");
    target.finish();
    if (path && xdp != nullptr) {
      file_.error(node, "the target is a data plane and `xdp` in one",
                  "write two targets, each behind a `-` of its own");
    } else if (path) {
      read_dataplane(*target.find("dataplane"), *path);
    } else if (xdp != nullptr) {
      read_xdp(*xdp);
    } else if (file_.diagnostics.errors() == errors) {
      file_.error(node, "the target is empty", kDataplaneExample);
    }
  }

  std::vector<TargetSpec> take() { return std::move(targets_); }

 private:
  void read_dataplane(const Node& place, const std::string& path) {
    const auto same = [&](const TargetSpec& target) { return target.dataplane == path; };
    if (path.empty()) {
      file_.error(place, "the path of the socket is empty", kDataplaneExample);
    } else if (path.size() > kMaxSocketPath) {
      file_.error(place, quoted(path) + " is longer than a socket's path can be",
                  "choose one of at most " + std::to_string(kMaxSocketPath) + " bytes");
    } else if (std::any_of(targets_.begin(), targets_.end(), same)) {
      file_.error(place, quoted(path) + " is a target already", "name each target once");
    } else {
      targets_.push_back({path, std::nullopt});
    }
  }

  void read_xdp(const Node& node) {
    if (has_xdp_) file_.error(node, "a second xdp target", "name all interfaces in one target");
    has_xdp_ = true;
    MapReader section(file_.document, &node, "`xdp`", file_.diagnostics);
    XdpTarget xdp;
    constexpr Attach kAttach[] = {Attach::any, Attach::native, Attach::generic};
    section.require("interfaces");
    const Node* interfaces = section.sequence("interfaces");
    xdp.attach = kAttach[section.choice("attach", {"auto", "native", "generic"}).value_or(0)];
    section.finish();
    if (interfaces == nullptr) return;
    for (const Node& item : interfaces->items) read_interface(item, xdp.interfaces);
    if (interfaces->items.size() > wire::kMaxInterfaces) {
      file_.error(*interfaces, "more than " + std::to_string(wire::kMaxInterfaces) + " interfaces",
                  "leave out those that need no filter");
    } else if (interfaces->items.empty()) {
      file_.warning(*interfaces, "no interfaces: the maps are kept for programs that net_af_xdp attaches, nothing else",
                    "to filter what comes in by an interface, name it, as in interfaces: [eth0]");
    }
    targets_.push_back({"", std::move(xdp)});
  }

  void read_interface(const Node& item, std::vector<std::string>& interfaces) {
    if (item.kind != Kind::scalar) {
      file_.error(item, "an interface must be a text", "write its name, as in interfaces: [eth0]");
    } else if (const std::string why = why_no_interface(item.text); !why.empty()) {
      file_.error(item, why, "1 to 15 characters, no blanks, no / and no : (`ip link` lists them)");
    } else if (contains(interfaces, item.text)) {
      file_.error(item, quoted(item.text) + " is named twice", "name each interface once");
    } else {
      interfaces.push_back(item.text);
    }
  }

  const PolicyFile& file_;
  std::vector<TargetSpec> targets_;
  bool has_xdp_ = false;
};

std::optional<XdpTarget> find_xdp(const Node& node) {
  const Node* interfaces = member(node, "interfaces");
  if (interfaces == nullptr || interfaces->kind != Kind::sequence) return std::nullopt;
  XdpTarget xdp;
  for (const Node& item : interfaces->items) {
    const bool good = item.kind == Kind::scalar && why_no_interface(item.text).empty();
    if (good && !contains(xdp.interfaces, item.text)) xdp.interfaces.push_back(item.text);
  }
  const Node* attach = member(node, "attach");
  if (attach != nullptr && attach->text == "native") xdp.attach = Attach::native;
  if (attach != nullptr && attach->text == "generic") xdp.attach = Attach::generic;
  return xdp;
}

}  // namespace

Result<TargetSpec> target_of(std::string_view text) {
  if (!text.starts_with(kXdpPrefix)) {
    if (text.empty() || text.size() > kMaxSocketPath) {
      return Error{"a socket's path has 1 to " + std::to_string(kMaxSocketPath) + " bytes"};
    }
    return TargetSpec{std::string(text), std::nullopt};
  }
  XdpTarget xdp;
  std::string_view rest = text.substr(kXdpPrefix.size());
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string name(rest.substr(0, comma));
    if (const std::string why = why_no_interface(name); !why.empty()) return Error{why};
    if (contains(xdp.interfaces, name)) return Error{quoted(name) + " is named twice"};
    xdp.interfaces.push_back(name);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) return Error{why_no_interface("")};
  }
  if (xdp.interfaces.size() > wire::kMaxInterfaces) return Error{"more than 256 interfaces"};
  return TargetSpec{"", std::move(xdp)};
}

std::vector<TargetSpec> read_targets(const PolicyFile& file, const Node& sequence) {
  TargetsReader reader(file);
  for (const Node& target : sequence.items) reader.read(target);
  return reader.take();
}

std::vector<TargetSpec> find_targets(const Node& sequence) {
  std::vector<TargetSpec> targets;
  bool has_xdp = false;
  for (const Node& node : sequence.items) {
    const Node* socket = member(node, "dataplane");
    if (socket != nullptr && !socket->text.empty()) targets.push_back({socket->text, std::nullopt});
    const Node* xdp = member(node, "xdp");
    if (xdp == nullptr || has_xdp) continue;
    if (std::optional<XdpTarget> found = find_xdp(*xdp)) {
      targets.push_back({"", std::move(found)});
      has_xdp = true;
    }
  }
  return targets;
}

}  // namespace weir::control
