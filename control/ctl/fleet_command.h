#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "control/ctl/command.h"
#include "control/ctl/fleet_answer.h"
#include "control/policy/model/policy.h"
#include "control/sources/fleet/desk.h"

// What the actions of `controlctl fleet` share, and the actions; each returns an exit code.
namespace weir::control::ctl::fleet_command {

struct Asked {
  std::string action;
  std::vector<std::string> rest;
  std::string config, etcd, name, comment, list, ttl, groups, wait = "10m", watch = "10s", excess = "30%", to;
  std::string blobs_folder, blobs_url, wait_nodes;
  bool stage = false;
};

struct Fleet {
  FleetSettings settings;
  std::unique_ptr<fleet::Desk> desk;
};
// Of the file with `fleet:`, or of --etcd and --name.
Result<Fleet> open(const Asked& asked);

int refuse(const Context& context, const std::string& error, int code = kFailed);
int finish(const Context& context, const FleetAnswer& answer, const std::string& text);
// What may take a while says so.
void say_waiting(const Context& context, const std::string& text);
// How long ago; `-` when it never was.
std::string when(int64_t at);
std::vector<std::string> split(const std::string& text);  // at commas
Result<uint64_t> number_of(const std::string& text);      // of a revision
// Of an option; empty: it was said what is wrong with it.
std::optional<double> seconds_of(const Context& context, const char* option, const std::string& text);
// Stores the policy of this file. Empty: it was said why not.
std::optional<fleet::Pushed> store(const Context& context, const Asked& asked, Fleet& fleet, bool is_staged);

// fleet_show.cpp
int status(const Context& context, const Asked& asked, Fleet& fleet);
int history(const Context& context, const Asked& asked, Fleet& fleet);
int diff(const Context& context, const Asked& asked, Fleet& fleet);
int plan(const Context& context, const Asked& asked, Fleet& fleet);
// fleet_move.cpp
int push(const Context& context, const Asked& asked, Fleet& fleet);
int rollout(const Context& context, const Asked& asked, Fleet& fleet);
int pause(const Context& context, const Asked& asked, Fleet& fleet);
int rollback(const Context& context, const Asked& asked, Fleet& fleet);
// fleet_add.cpp
int add(const Context& context, const Asked& asked, Fleet& fleet);
int del(const Context& context, const Asked& asked, Fleet& fleet);

}  // namespace weir::control::ctl::fleet_command
