// A policy, compiled to the file that a data plane starts from (STATE_DIR/snapshot.weir). For benchmarks: flows may
// come from a plain file, since a million of them make a larger policy file than controld reads.
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common/files.h"
#include "control/compile/compile.h"
#include "control/policy/model/columns.h"
#include "control/policy/read/policy.h"

namespace weir::bench {
namespace {

struct Options {
  std::string policy, flows, numbered, out;
  uint64_t epoch = 1, number = 1;
};

control::AddressRange host(Ipv4 address) {
  return {address, address};
}

// Lines of "SRC DST PROTO SPORT DPORT", all of them numbers, addresses in dotted form.
Result<void> add_flows(const std::string& path, control::ListDraft& list) {
  std::ifstream file(path);
  if (!file) return Error{"cannot open " + path};
  std::string source, destination;
  unsigned protocol = 0, sport = 0, dport = 0;
  for (uint32_t line = 1; file >> source >> destination >> protocol >> sport >> dport; line++) {
    const std::optional<Ipv4> src = parse_ipv4(source), dst = parse_ipv4(destination);
    if (!src || !dst || protocol > 255 || sport > 65535 || dport > 65535) {
      return Error{fmt::format("{}:{}: not SRC DST PROTO SPORT DPORT", path, line)};
    }
    control::Flow flow;
    flow.family = 4;
    flow.src = host(*src);
    flow.dst = host(*dst);
    flow.protocol = static_cast<uint8_t>(protocol);
    flow.sport = control::PortRange{static_cast<uint16_t>(sport), static_cast<uint16_t>(sport)};
    flow.dport = control::PortRange{static_cast<uint16_t>(dport), static_cast<uint16_t>(dport)};
    flow.line = line;
    list.flows.push_back(flow);
  }
  if (!file.eof()) return Error{path + ": a line is not SRC DST PROTO SPORT DPORT"};
  return {};
}

// "COUNT STEP": the hosts 0, STEP, 2 * STEP, ... modulo 2^32, as sources.
Result<void> add_numbered(const std::string& path, control::ListDraft& list) {
  std::ifstream file(path);
  uint32_t count = 0, step = 0;
  if (!(file >> count >> step)) return Error{path + ": not COUNT STEP"};
  std::vector<control::Entry<Ipv4>>& hosts = list.v4;
  hosts.reserve(hosts.size() + count);
  for (uint32_t i = 0; i < count; i++) {
    control::Entry<Ipv4> entry = {};
    entry.first = entry.last = i * step;
    entry.line = i + 1;
    entry.directions = WEIR_AS_SOURCE;
    entry.expires = control::kNever;
    hosts.push_back(entry);
  }
  return {};
}

Result<nlohmann::json> make(const Options& options) {
  Diagnostics diagnostics;
  std::optional<control::Policy> policy = control::read_policy(options.policy, diagnostics);
  if (!policy) return Error{format(diagnostics)};
  if (!options.flows.empty() || !options.numbered.empty()) {
    if (policy->lists.empty()) return Error{options.policy + ": the policy has no list that could take entries"};
    control::List& list = policy->lists.back();
    control::ListDraft draft = control::draft_of(*list.content);
    if (!options.flows.empty()) {
      if (Result<void> added = add_flows(options.flows, draft); !added) return Error{added.error()};
    }
    if (!options.numbered.empty()) {
      if (Result<void> added = add_numbered(options.numbered, draft); !added) return Error{added.error()};
    }
    list.content = control::make_entries(std::move(draft));
  }
  const auto began = std::chrono::steady_clock::now();
  const Result<control::Compiled> compiled =
      control::compile(*policy, {options.epoch, options.number}, static_cast<unsigned>(get_nprocs()));
  if (!compiled) return Error{compiled.error()};
  const std::chrono::duration<double> compile = std::chrono::steady_clock::now() - began;
  const Result<Mapping> bytes = map_read_only(compiled->snapshot.get(), compiled->size_bytes);
  if (!bytes) return Error{bytes.error()};
  const Result<void> written =
      write_file_durably(options.out, {bytes->bytes(), std::as_bytes(std::span(compiled->digest))}, 0600);
  if (!written) return Error{written.error()};
  nlohmann::json shapes = nlohmann::json::array();
  for (const control::ShapeReport& shape : compiled->report.shapes) shapes.push_back(shape.name);
  return nlohmann::json{{"entries", compiled->report.entries},
                        {"bytes", compiled->size_bytes},
                        {"compile_s", compile.count()},
                        {"probes_v4", compiled->report.probes_v4},
                        {"probes_v6", compiled->report.probes_v6},
                        {"shapes", shapes}};
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Compiles a policy to STATE_DIR/snapshot.weir of a data plane; prints what it has as JSON.");
  app.add_option("--policy", options.policy)->required();
  app.add_option("--flows", options.flows, "lines of SRC DST PROTO SPORT DPORT, for the last list");
  app.add_option("--numbered", options.numbered, "COUNT STEP: hosts that are multiples, for the last list");
  app.add_option("--out", options.out)->required();
  app.add_option("--epoch", options.epoch);
  app.add_option("--number", options.number, "of the generation");
  CLI11_PARSE(app, argc, argv);
  const Result<nlohmann::json> made = make(options);
  if (!made) {
    fmt::print(stderr, "make_snapshot: {}\n", made.error());
    return 1;
  }
  fmt::print("{}\n", made->dump());
  return 0;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  return weir::bench::run(argc, argv);
}
