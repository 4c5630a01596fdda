#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/fd.h"
#include "control/sources/etcd/client.h"

// A fake etcd as a process (tests/rig/fleet/fake_etcd.py, which says what it can be asked): members on loopback with
// one store. tests/smoke/fake_etcd.py compares its answers with those of a real one. Its time moves by pass() alone.
class FakeEtcd {
 public:
  using Json = nlohmann::json;

  explicit FakeEtcd(size_t members = 1) {
    weir::Fd theirs_in, theirs_out, from;
    make_pipe(theirs_in, lives_);
    make_pipe(from, theirs_out);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, theirs_in.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, theirs_out.get(), STDOUT_FILENO);
    std::string words[] = {"python3", WEIR_FAKE_ETCD, "--members", std::to_string(members)};
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    must_be(posix_spawnp(&pid_, arguments[0], &files, nullptr, arguments, environ) == 0);
    posix_spawn_file_actions_destroy(&files);
    theirs_in.reset();
    theirs_out.reset();
    std::string ports;
    char letter = 0;
    while (read(from.get(), &letter, 1) == 1 && letter != '\n') ports += letter;
    std::istringstream words_of_ports(ports);
    for (std::string port; words_of_ports >> port;) urls_.push_back("http://127.0.0.1:" + port);
    must_be(urls_.size() == members);
  }
  FakeEtcd(const FakeEtcd&) = delete;
  ~FakeEtcd() {
    lives_.reset();
    waitpid(pid_, nullptr, 0);
  }

  const std::vector<std::string>& urls() const { return urls_; }
  weir::control::etcd::Access access() const {
    weir::control::etcd::Access access;
    access.endpoints = urls_;
    access.timeout_ms = 20'000;
    return access;
  }
  // The test asks by it what etcd holds.
  weir::control::etcd::Client client() const { return weir::control::etcd::Client(access()); }

  // A member behaves so from now on: SETTINGS of fake_etcd.py.
  void set(const Json& settings, size_t member = 0) { ask("set", settings, member); }
  // The cluster does not answer, and every watch ends; or it answers again.
  void leave() {
    for (size_t member = 0; member < urls_.size(); member++) set({{"drops", true}}, member), cut(member);
  }
  void come_back() {
    for (size_t member = 0; member < urls_.size(); member++) set({{"drops", false}}, member);
  }
  void cut(size_t member = 0) { ask("cut", Json::object(), member); }
  void pass(int64_t seconds) { ask("pass", {{"seconds", seconds}}); }
  void set_users(const Json& users) { ask("users", users); }
  void end_tokens() { ask("end_tokens"); }
  void change_users() { ask("change_users"); }
  void compact(int64_t revision) { post("/v3/kv/compaction", {{"revision", std::to_string(revision)}}, 0); }

  int watches(size_t member = 0) { return ask("state", Json::object(), member).at("watches"); }
  int waiting() { return ask("state").at("waiting"); }
  struct Asked {
    size_t member = 0;
    std::string path;  // without /v3/
    Json body;
  };
  // Everything so far, of all members.
  std::vector<Asked> asked() {
    const Json state = ask("state");
    std::vector<Asked> all;
    for (const Json& one : state.at("asked")) {
      all.push_back({one.at("member").get<size_t>(), one.at("path").get<std::string>().substr(4), one.at("body")});
    }
    return all;
  }
  size_t times(const std::string& path) {
    const std::vector<Asked> all = asked();
    return static_cast<size_t>(
        std::count_if(all.begin(), all.end(), [&](const Asked& one) { return one.path == path; }));
  }

 private:
  static void must_be(bool holds) {
    if (!holds) abort();
  }
  static void make_pipe(weir::Fd& reads, weir::Fd& writes) {
    int ends[2];
    must_be(pipe2(ends, O_CLOEXEC) == 0);
    reads = weir::Fd(ends[0]);
    writes = weir::Fd(ends[1]);
  }
  Json ask(const std::string& what, const Json& body = Json::object(), size_t member = 0) {
    return post("/fake/" + what, body, member);
  }
  Json post(const std::string& path, const Json& body, size_t member) {
    weir::control::HttpRequest request;
    request.method = "POST";
    request.url = urls_.at(member) + path;
    request.body = body.dump();
    request.max_bytes = size_t{64} << 20;
    const weir::Result<weir::control::HttpAnswer> answer = http_.ask(request);
    must_be(answer && answer->status == 200);
    return Json::parse(answer->body);
  }

  weir::Fd lives_;  // it ends when this is closed
  pid_t pid_ = 0;
  std::vector<std::string> urls_;
  weir::control::HttpClient http_;
};
