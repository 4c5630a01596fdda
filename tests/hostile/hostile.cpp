// Sends what nobody should, to programs that run: variants of snapshots and messages to a data plane or the XDP plane,
// requests to controld, answers to what controld asks. Prints as JSON how many, and what became of them; exit code 1
// when the other side is gone.

#include <bpf/bpf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bpf/enforce/server.h"
#include "common/digest.h"
#include "common/unix_socket.h"
#include "tests/agreement/xdp_plane.h"
#include "tests/hostile/kinds.h"
#include "tests/hostile/variants.h"
#include "tests/unit/eventually.h"

namespace weir::hostile {
namespace {

using agreement::Choices;
using Json = nlohmann::json;
using Connect = std::function<Result<Fd>()>;

constexpr int kAnswerMs = 20'000;  // for all that a busy machine does first

struct Outcome {
  uint64_t sent = 0, taken = 0, refused = 0;
  std::map<std::string, uint64_t> steps;  // in which a snapshot was refused
  std::string problem;                    // the other side is gone; empty: it is there

  int print() const {
    Json json = {{"sent", sent}, {"taken", taken}, {"refused", refused}};
    if (!steps.empty()) json["steps"] = steps;
    if (!problem.empty()) json["problem"] = problem;
    fmt::print("{}\n", json.dump());
    return problem.empty() ? 0 : 1;
  }
};

// A connection that is made anew when the other side has closed it.
class Line {
 public:
  explicit Line(Connect connect) : connect_(std::move(connect)) {}

  // -1: nobody is there.
  int socket(std::string& problem) {
    if (fd_) return fd_.get();
    Result<Fd> made = connect_();
    for (int tried = 0; !made && tried < 500; tried++) {  // all its places are taken
      a_moment();
      made = connect_();
    }
    if (!made) {
      problem = made.error();
      return -1;
    }
    fd_ = std::move(*made);
    return fd_.get();
  }
  void close() { fd_.reset(); }

 private:
  Connect connect_;
  Fd fd_;
};

// Whether it still answers as it should.
void ask_for_sense(const Connect& connect, Outcome& outcome) {
  if (!outcome.problem.empty()) return;
  const Result<Fd> socket = connect();
  const Result<wire::Message> answer =
      socket ? wire::call(socket->get(), wire::Type::status) : Result<wire::Message>(Error{socket.error()});
  if (!answer) outcome.problem = "afterwards: " + answer.error();
}

// after_each: with what is enforced then.
Outcome send_snapshots(const Connect& connect, uint64_t variants, uint64_t seed,
                       const std::function<void(Choices&)>& after_each) {
  constexpr size_t kSnapshots = 40;
  const std::vector<Bytes> good = good_snapshots(kSnapshots, seed);
  Choices choices(seed);
  Outcome outcome;
  Line line(connect);
  wire::Generation generation = {7, 0};
  while (outcome.sent < variants) {
    const int socket = line.socket(outcome.problem);
    if (socket < 0) break;
    generation.number++;
    const Publication publication = publication_of(choices, good[outcome.sent % good.size()], generation);
    outcome.sent++;
    const Result<wire::Message> answer =
        wire::call(socket, wire::Type::publish, wire::bytes_of(publication.body), publication.fd.get());
    const auto body = answer ? wire::body_as<wire::PublishedBody>(*answer) : std::nullopt;
    if (body && body->ok == 1) {
      outcome.taken++;
      after_each(choices);
    } else {
      outcome.refused++;
      outcome.steps[body ? wire::step_name(body->failed_step) : "message"]++;
      if (!answer) line.close();
    }
  }
  ask_for_sense(connect, outcome);
  return outcome;
}

Outcome send_messages(const Connect& connect, uint64_t messages, uint64_t seed) {
  Choices choices(seed);
  Outcome outcome;
  Line line(connect);
  std::vector<std::byte> answer(wire::kMaxMessageBytes);
  while (outcome.sent < messages) {
    const int socket = line.socket(outcome.problem);
    if (socket < 0) break;
    const Bytes packet = message_of(choices);
    outcome.sent++;
    if (packet.empty()) continue;  // an end of the connection
    if (send(socket, packet.data(), packet.size(), MSG_NOSIGNAL) < 0) {
      line.close();
      continue;
    }
    const ssize_t got = recv(socket, answer.data(), answer.size(), 0);
    const Result<wire::Message> understood =
        got > 0 ? wire::decode(std::span(answer).first(static_cast<size_t>(got)), Fd()) : Error{"closed"};
    const bool refused = !understood || understood->header.type == static_cast<uint16_t>(wire::Type::refused);
    (refused ? outcome.refused : outcome.taken)++;
    if (refused) line.close();
    if (got < 0 && errno == EAGAIN) {
      outcome.problem = fmt::format("no answer within {} ms", kAnswerMs);
      break;
    }
  }
  ask_for_sense(connect, outcome);
  return outcome;
}

// One connection each, as controlctl does.
Outcome send_requests(const std::string& path, uint64_t requests, uint64_t seed) {
  Choices choices(seed);
  Outcome outcome;
  const auto ask = [&](const std::string& request) -> std::string {
    Line line([&] { return unix_socket::connect(path, unix_socket::Kind::stream, kAnswerMs); });
    const int socket = line.socket(outcome.problem);
    if (socket < 0) return "";
    (void)send(socket, request.data(), request.size(), MSG_NOSIGNAL);
    shutdown(socket, SHUT_WR);
    std::string answer;
    char chunk[65536];
    for (ssize_t got; (got = recv(socket, chunk, sizeof chunk, 0)) > 0;) answer.append(chunk, static_cast<size_t>(got));
    return answer;
  };
  while (outcome.sent < requests && outcome.problem.empty()) {
    const std::string answer = ask(request_of(choices));
    outcome.sent++;
    (answer.find("\"error\"") == std::string::npos && !answer.empty() ? outcome.taken : outcome.refused)++;
  }
  if (outcome.problem.empty() && ask("{\"command\":\"status\"}\n").find("\"generation\"") == std::string::npos) {
    outcome.problem = "afterwards: no status";
  }
  return outcome;
}

// Enforcers that lie: FOLDER/0.sock, ... Until so many answers were sent, or nobody asks for 30 s.
Outcome send_answers(const std::string& folder, unsigned enforcers, uint64_t answers, uint64_t seed) {
  constexpr int kQuietMs = 30'000;
  Choices choices(seed);
  Outcome outcome;
  std::vector<unix_socket::Listener> listeners;
  for (unsigned i = 0; i < enforcers; i++) {
    auto listener =
        unix_socket::Listener::open(fmt::format("{}/{}.sock", folder, i), unix_socket::Kind::seqpacket, 0600, 16);
    if (!listener) {
      outcome.problem = listener.error();
      return outcome;
    }
    listeners.push_back(std::move(*listener));
  }
  fmt::print("ready\n");
  fflush(stdout);
  std::vector<Fd> clients;
  while (outcome.sent < answers) {
    std::vector<pollfd> ready;
    for (const unix_socket::Listener& listener : listeners) ready.push_back({listener.fd(), POLLIN, 0});
    for (const Fd& client : clients) ready.push_back({client.get(), POLLIN, 0});
    if (poll(ready.data(), ready.size(), kQuietMs) <= 0) {
      outcome.problem = fmt::format("nobody asked for {} ms", kQuietMs);
      break;
    }
    const size_t before = clients.size();
    for (size_t i = 0; i < listeners.size(); i++) {
      if (ready[i].revents == 0) continue;
      auto accepted = listeners[i].accept();
      if (accepted && *accepted) clients.push_back(std::move(**accepted));
    }
    for (size_t i = 0; i < before; i++) {
      if (ready[listeners.size() + i].revents == 0) continue;
      const Result<wire::Message> request = wire::receive(clients[i].get());
      const Bytes answer = request ? answer_of(choices, *request) : Bytes();
      if (!request) outcome.refused++;  // it was closed
      if (answer.empty() || send(clients[i].get(), answer.data(), answer.size(), MSG_NOSIGNAL) < 0) {
        clients[i].reset();
        continue;
      }
      outcome.sent++;
    }
    std::erase_if(clients, [](const Fd& client) { return !client; });
  }
  outcome.taken = outcome.sent - std::min(outcome.sent, outcome.refused);
  return outcome;
}

constexpr rlim_t kMostCpuSeconds = 20;  // for work that takes none

// In a process of its own, which ends when it takes too long.
Json try_kind(const Kind& kind) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) abort();
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {kMostCpuSeconds, kMostCpuSeconds};
    (void)setrlimit(RLIMIT_CPU, &limit);
    const Work work = work_of(kind);
    const std::string told =
        Json{{"refused", work.refused}, {"why", work.why}, {"steps", work.steps}, {"most", most_steps(kind)}}.dump();
    if (write(ends[1], told.data(), told.size()) < 0) abort();
    _exit(0);
  }
  close(ends[1]);
  std::string told;
  char chunk[4096];
  for (ssize_t got; (got = read(ends[0], chunk, sizeof chunk)) > 0;) told.append(chunk, static_cast<size_t>(got));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  Json row = Json::parse(told, nullptr, false);
  if (row.is_discarded()) row = {{"endless", true}};
  row["kind"] = kind.name;
  const bool is_taken = row.contains("refused") && !row["refused"].get<bool>();
  row["wrong"] = row.contains("endless") || is_taken != kind.is_sound ||
                 (is_taken && row["steps"].get<uint64_t>() > row["most"].get<uint64_t>());
  return row;
}

// The enforcer's reason to refuse it; empty: the enforcer took it.
std::string refusal_by(int socket, const Kind& kind, wire::Generation generation, bool is_base) {
  const Bytes& bytes = is_base ? kind.base : kind.snapshot;
  wire::PublishBody body;
  body.generation = generation;
  const Digest digest = digest_of(bytes);
  std::copy(digest.begin(), digest.end(), body.digest);
  body.size_bytes = bytes.size();
  if (!is_base && !kind.base.empty()) {
    const Digest of_base = digest_of(kind.base);
    body.base = {generation.epoch, generation.number - 1};
    std::copy(of_base.begin(), of_base.end(), body.base_digest);
  }
  const Fd fd = sealed(bytes);
  const Result<wire::Message> answer = wire::call(socket, wire::Type::publish, wire::bytes_of(body), fd.get());
  if (!answer) return "no answer: " + answer.error();
  const auto published = wire::body_as<wire::PublishedBody>(*answer);
  if (!published) return "no answer to a publication";
  return published->ok == 1 ? "" : std::string(wire::get_text(published->reason));
}

// The hand-made ones, here and, when there is one, at an enforcer. A row for each.
Outcome try_kinds(const std::optional<Connect>& connect, Json& rows) {
  Outcome outcome;
  constexpr uint64_t kEpoch = 7;
  uint64_t number = 1;
  for (const Kind& kind : hand_made(kEpoch, 1)) {
    Json row = try_kind(kind);
    if (connect) {
      const Result<Fd> socket = (*connect)();
      if (!socket) {
        outcome.problem = socket.error();
        break;
      }
      if (!kind.base.empty()) {
        const std::string refused = refusal_by(socket->get(), kind, {kEpoch, number++}, true);
        if (!refused.empty()) outcome.problem = kind.name + ": its base: " + refused;
      }
      const std::string refused = refusal_by(socket->get(), kind, {kEpoch, number++}, false);
      row["enforcer"] = refused;
      if (refused.starts_with("no answer")) outcome.problem = kind.name + ": " + refused;
      if (refused.empty() != kind.is_sound) row["wrong"] = true;
    }
    outcome.sent++;
    (row.value("refused", false) ? outcome.refused : outcome.taken)++;
    rows.push_back(std::move(row));
    if (!outcome.problem.empty()) break;
  }
  if (connect) ask_for_sense(*connect, outcome);
  return outcome;
}

// The XDP plane as controld drives it, in this process. use(connect, program_fd, problem): while it is there.
Outcome with_xdp(const std::function<Outcome(const Connect&, int, std::string&)>& use) {
  Outcome outcome;
  const std::string bpf_dir = fmt::format("{}/weir-hostile-{}", xdp::kDefaultBpfDir, getpid());
  Result<std::unique_ptr<xdp::Enforcer>> enforcer = xdp::Enforcer::open({{}, xdp::Attach::any, bpf_dir});
  if (!enforcer) {
    outcome.problem = enforcer.error();
    return outcome;
  }
  const int program = (*enforcer)->program_fd();
  std::string problem;
  {
    xdp::Server server(std::move(*enforcer), bpf_dir);
    outcome = use([&] { return server.connect(); }, program, problem);
  }
  if (outcome.problem.empty()) outcome.problem = problem;
  (void)xdp::detach_pinned(bpf_dir, std::nullopt);
  std::error_code ignored;
  std::filesystem::remove_all(bpf_dir, ignored);
  return outcome;
}

// Frames run through what it took.
Outcome send_snapshots_to_xdp(uint64_t variants, uint64_t seed) {
  return with_xdp([&](const Connect& connect, int program, std::string& problem) {
    const auto run_frames = [&](Choices& choices) {
      for (int n = 0; n < 4; n++) {
        std::vector<uint8_t> frame(60 + choices.below(80));
        for (uint8_t& byte : frame) byte = static_cast<uint8_t>(choices.next());
        const bool v6 = choices.one_in(2);
        frame[12] = v6 ? 0x86 : 0x08;
        frame[13] = v6 ? 0xdd : 0x00;
        frame[14] = v6 ? 0x60 : 0x45;
        if (!v6) frame[16] = frame[17] = 0;
        LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame.data(),
                    .data_size_in = static_cast<uint32_t>(frame.size()), .repeat = 1);
        if (bpf_prog_test_run_opts(program, &run) != 0 || (run.retval != XDP_DROP && run.retval != XDP_PASS)) {
          problem = "a frame has no verdict";
        }
      }
    };
    return send_snapshots(connect, variants, seed, run_frames);
  });
}

int print_kinds(const std::optional<Connect>& connect, bool at_xdp) {
  Json rows = Json::array();
  const Outcome outcome = at_xdp ? with_xdp([&](const Connect& to, int, std::string&) { return try_kinds(to, rows); })
                                 : try_kinds(connect, rows);
  Json json = {{"sent", outcome.sent}, {"taken", outcome.taken}, {"refused", outcome.refused}, {"kinds", rows}};
  if (!outcome.problem.empty()) json["problem"] = outcome.problem;
  fmt::print("{}\n", json.dump());
  const bool wrong = std::any_of(rows.begin(), rows.end(), [](const Json& row) { return row["wrong"].get<bool>(); });
  return wrong || !outcome.problem.empty() ? 1 : 0;
}

}  // namespace
}  // namespace weir::hostile

int main(int argc, char** argv) {
  using namespace weir;
  CLI::App app{"Sends what nobody should, to programs that run."};
  app.require_subcommand(1);
  std::string path;
  uint64_t n = 10'000, seed = 1;
  unsigned enforcers = 100;
  const auto add = [&](const char* name, const char* what, const char* of) {
    CLI::App* command = app.add_subcommand(name, what);
    if (of != nullptr) command->add_option(of, path)->required();
    command->add_option("--count", n)->capture_default_str();
    command->add_option("--seed", seed)->capture_default_str();
    return command;
  };
  CLI::App* snapshots = add("snapshots", "publications to a data plane", "SOCKET");
  CLI::App* xdp = add("xdp", "publications to an XDP plane of its own (root)", nullptr);
  CLI::App* messages = add("messages", "messages to a data plane", "SOCKET");
  CLI::App* requests = add("requests", "requests to controld", "SOCKET");
  CLI::App* answers = add("answers", "enforcers that answer controld", "FOLDER");
  answers->add_option("--enforcers", enforcers)->capture_default_str();
  CLI::App* kinds = app.add_subcommand("kinds", "the hand-made snapshots, here and to an enforcer");
  bool at_xdp = false;
  kinds->add_option("SOCKET", path, "of a data plane");
  kinds->add_flag("--xdp", at_xdp, "to an XDP plane of its own (root)");
  CLI11_PARSE(app, argc, argv);
  const hostile::Connect connect = [&] { return wire::connect(path, hostile::kAnswerMs); };
  if (snapshots->parsed()) return hostile::send_snapshots(connect, n, seed, [](agreement::Choices&) {}).print();
  if (xdp->parsed()) return hostile::send_snapshots_to_xdp(n, seed).print();
  if (kinds->parsed()) return hostile::print_kinds(path.empty() ? std::nullopt : std::optional(connect), at_xdp);
  if (messages->parsed()) return hostile::send_messages(connect, n, seed).print();
  if (requests->parsed()) return hostile::send_requests(path, n, seed).print();
  return hostile::send_answers(path, enforcers, n, seed).print();
}
