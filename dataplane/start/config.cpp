#include "dataplane/start/config.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "common/paths.h"
#include "common/yaml/yaml.h"
#include "dataplane/start/config_keys.h"

namespace weir::dataplane {

namespace {

using yaml::Document;
using yaml::MapReader;
using yaml::Node;

Place place_of(const Document& document, const Node& node) {
  return {document.where(node), document.source_line(node.line)};
}

void read_allow_uid(const Node& names, MapReader& reader, Config& config) {
  for (const Node& name : names.items) {
    uid_t uid = 0;
    const char* end = name.text.data() + name.text.size();
    const auto [stop, error] = std::from_chars(name.text.data(), end, uid);
    if (name.kind != yaml::Kind::scalar || name.text.empty()) {
      reader.error(name, "`allow_uid` holds user names and numbers");
    } else if (error == std::errc() && stop == end) {
      config.allow_uid.push_back(uid);
    } else if (const passwd* user = getpwnam(name.text.c_str()); user != nullptr) {
      config.allow_uid.push_back(user->pw_uid);
    } else {
      reader.warning(name, "there is no user `" + name.text + "` here: nobody is allowed by this name",
                     "make the user, or write its number");
    }
  }
}

void read_socket(MapReader reader, Config& config) {
  reader.take("path", config.socket_path);
  if (const Node* names = reader.sequence("allow_uid")) read_allow_uid(*names, reader, config);
  reader.finish();
}

void read_mempool(MapReader reader, Config& config) {
  reader.take("mbufs", config.mbufs);
  reader.take("data_room", config.data_room);
  reader.finish();
}

void read_kept_capabilities(const Node& names, MapReader& reader, PrivilegeSettings& privileges) {
  for (const Node& name : names.items) {
    const Capabilities one = name.text == "all" ? ~Capabilities{0} : confine::capability_named(name.text);
    if (name.kind != yaml::Kind::scalar || one == 0) {
      reader.error(name, "`keep` holds names of capabilities", "such as net_admin: `man 7 capabilities`, without CAP_");
    }
    privileges.keep |= one;
  }
}

void read_privileges(MapReader reader, PrivilegeSettings& privileges) {
  if (const auto name = reader.text("user")) {
    privileges.user = find_user(*name);
    if (!privileges.user) {
      reader.error(*reader.find("user"), "there is no user `" + *name + "` here",
                   "make it (useradd --system " + *name + "), or name another; root keeps root's");
    }
  }
  if (const Node* names = reader.sequence("keep")) read_kept_capabilities(*names, reader, privileges);
  reader.take("seccomp", privileges.seccomp);
  reader.finish();
}

void read_telemetry(MapReader reader, Config& config) {
  reader.take("sample_one_in", config.sample_one_in);
  reader.finish();
}

void read_idle(MapReader reader, IdleConfig& idle) {
  reader.take("mode", idle.mode);
  reader.take("pause_us", idle.pause_us);
  reader.take("sleep_us", idle.sleep_us);
  reader.finish();
}

PortConfig read_port(MapReader reader, const Place& place) {
  PortConfig port;
  port.place = place;
  if (reader.require("port") != nullptr) reader.take("port", port.port);
  reader.take("queues", port.queues);
  reader.take("descriptors", port.descriptors);
  reader.take("mtu", port.mtu);
  reader.take("promiscuous", port.promiscuous);
  reader.take("spread", port.spread);
  reader.finish();
  return port;
}

void add_error(Diagnostics& diagnostics, const Place& place, std::string message, std::string hint) {
  diagnostics.add({Severity::error, place.where, std::move(message), place.source_line, std::move(hint)});
}

// What the ports must agree on; whether they exist is known later (port_plan.h).
void check_ports(const Config& config, Diagnostics& diagnostics) {
  const std::vector<PortConfig>& ports = *config.ports;
  if (ports.empty()) {
    add_error(diagnostics, config.ports_place, "`ports` is empty: no frame would be received",
              "name at least one port, or leave `ports` out to use every port");
  }
  for (size_t i = 0; i < ports.size(); i++) {
    const bool again = std::any_of(ports.begin(), ports.begin() + static_cast<ptrdiff_t>(i),
                                   [&](const PortConfig& other) { return other.port == ports[i].port; });
    const std::string name = "port " + std::to_string(ports[i].port);
    if (again) add_error(diagnostics, ports[i].place, name + " is listed twice", "name every port once");
    if (config.drop_port == ports[i].port) {
      add_error(diagnostics, config.drop_port_place, "`drop_port` is " + name + ", which is also in `ports`",
                "what is dropped would mix with what is passed: give it a port of its own");
    }
  }
  for (const PortConfig& port : ports) {
    if (port.spread == 0 || port.queues == 1) continue;
    add_error(diagnostics, port.place,
              "port " + std::to_string(port.port) + " has `spread` and " + std::to_string(port.queues) + " queues",
              "`spread` is for a device that has one queue: leave out one of them");
  }
  if (config.forward != Forward::pair) return;
  if (ports.size() % 2 != 0) {
    add_error(diagnostics, config.ports_place,
              "`forward: pair` needs an even number of ports, here are " + std::to_string(ports.size()),
              "add the missing partner, or use `forward: hairpin` or `forward: sink`");
  }
  for (size_t i = 1; i < ports.size(); i += 2) {
    if (ports[i].width() == ports[i - 1].width()) continue;
    add_error(diagnostics, ports[i].place,
              "port " + std::to_string(ports[i].port) + " has " + std::to_string(ports[i].width()) +
                  " queues and its partner, port " + std::to_string(ports[i - 1].port) + ", has " +
                  std::to_string(ports[i - 1].width()),
              "a frame leaves by the queue of the same number: give both partners the same number of `queues` (or of "
              "`spread`)");
  }
}

Config from_document(const Document& document, Diagnostics& diagnostics) {
  Config config = default_config();
  const Node* root = document.root.kind == yaml::Kind::null ? nullptr : &document.root;
  MapReader reader(document, root, kConfigSection, diagnostics);
  read_socket(reader.section("socket"), config);
  reader.take("state_dir", config.state_dir);
  reader.take("snapshot_memory", config.snapshot_memory);
  config.pass_without_snapshot = reader.choice("no_snapshot").value_or(0) == 0;
  if (const Node* forward = reader.find("forward")) config.forward_place = place_of(document, *forward);
  reader.take("forward", config.forward);
  reader.take("drop_port", config.drop_port);
  if (const Node* port = reader.find("drop_port")) config.drop_port_place = place_of(document, *port);
  read_mempool(reader.section("mempool"), config);
  read_privileges(reader.section("privileges"), config.privileges);
  read_idle(reader.section("idle"), config.idle);
  read_telemetry(reader.section("telemetry"), config);
  if (const Node* ports = reader.sequence("ports")) {
    config.ports_place = place_of(document, *ports);
    config.ports.emplace();
    for (const Node& port : ports->items) {
      config.ports->push_back(read_port(reader.item("ports", port), place_of(document, port)));
    }
  }
  reader.finish();
  if (config.ports && diagnostics.ok()) check_ports(config, diagnostics);
  return config;
}

}  // namespace

Config default_config() {
  Config config;
  config.socket_path = default_dataplane_socket();
  config.state_dir = default_state_dir() + "/dataplane";
  if (geteuid() == 0) config.privileges.user = find_user(kDefaultUser);
  return config;
}

Config read_config(const std::string& path, Diagnostics& diagnostics) {
  const std::optional<Document> document = yaml::read_document(path, diagnostics);
  return document ? from_document(*document, diagnostics) : default_config();
}

Config parse_config(std::string path, std::string text, Diagnostics& diagnostics) {
  const std::optional<Document> document = yaml::parse_document(std::move(path), std::move(text), diagnostics);
  return document ? from_document(*document, diagnostics) : default_config();
}

}  // namespace weir::dataplane
