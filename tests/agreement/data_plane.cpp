#include "tests/agreement/data_plane.h"

#include <cstdlib>
#include <filesystem>
#include <future>

#include "tests/agreement/publication.h"

namespace weir::agreement {
namespace {

constexpr uint64_t kMemory = uint64_t{4} << 30;
constexpr const char* kInMemory = "/dev/shm";

std::string own_folder() {
  std::error_code error;
  const bool has_memory = std::filesystem::is_directory(kInMemory, error);
  const std::filesystem::path below = has_memory ? kInMemory : std::filesystem::temp_directory_path();
  std::string name = below / "weir-agreement-XXXXXX";
  return mkdtemp(name.data()) == nullptr ? "" : name;
}

}  // namespace

Result<std::unique_ptr<DataPlane>> DataPlane::open() {
  const std::string folder = own_folder();
  if (folder.empty()) return Error{"no folder can be made for a data plane's state"};
  Result<dataplane::StateDir> state = dataplane::StateDir::open(folder + "/state");
  if (!state) return Error{state.error()};
  std::unique_ptr<DataPlane> plane(new DataPlane(folder, std::move(*state)));
  if (auto ok = plane->start(); !ok) return Error{ok.error()};
  return plane;
}

DataPlane::~DataPlane() {
  running_.reset();
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

DataPlane::Running::Running(const dataplane::StateDir& state, std::unique_ptr<dataplane::SnapshotSlot> of_workers)
    : slot(std::move(of_workers)), publisher(*slot, ledger, state, {dataplane::WorkerPlace{}}, kMemory) {}

DataPlane::Running::~Running() {
  publisher.stop();
  if (thread.joinable()) thread.join();
}

Result<void> DataPlane::start() {
  Result<std::unique_ptr<dataplane::SnapshotSlot>> slot = dataplane::SnapshotSlot::make(1);
  if (!slot) return Error{slot.error()};
  running_ = std::make_unique<Running>(state_, std::move(*slot));
  const Result<bool> restored = running_->publisher.restore();
  if (!restored) return Error{restored.error()};
  running_->thread = std::thread([this] { running_->publisher.run(); });
  return {};
}

Result<void> DataPlane::restart() {
  const wire::Generation before = running_->publisher.enforced().what.generation;
  former_.retire(running_->publisher.counts().lists);
  if (auto ok = start(); !ok) return ok;
  const wire::Generation now = running_->publisher.enforced().what.generation;
  if (now == before) return {};
  return Error{"generation " + std::to_string(before.number) + " was enforced, and after a restart it is " +
               std::to_string(now.number)};
}

Result<void> DataPlane::publish(const control::Publication& publication) {
  const Publish ask = [this](wire::Message message) {
    std::promise<wire::PublishedBody> answer;
    running_->publisher.publish(std::move(message), [&](const wire::PublishedBody& body) { answer.set_value(body); });
    return answer.get_future().get();
  };
  return send_to(ask, publication);
}

const dataplane::Snapshot& DataPlane::enter() {
  running_->slot->online(0);
  return *running_->slot->acquire();
}

}  // namespace weir::agreement
