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
  Result<std::unique_ptr<dataplane::SnapshotSlot>> slot = dataplane::SnapshotSlot::make(1);
  if (!slot) return Error{slot.error()};
  return std::unique_ptr<DataPlane>(new DataPlane(folder, std::move(*state), std::move(*slot)));
}

DataPlane::DataPlane(std::string folder, dataplane::StateDir state, std::unique_ptr<dataplane::SnapshotSlot> slot)
    : folder_(std::move(folder)),
      state_(std::move(state)),
      slot_(std::move(slot)),
      publisher_(*slot_, ledger_, state_, {dataplane::WorkerPlace{}}, kMemory),
      thread_([this] { publisher_.run(); }) {}

DataPlane::~DataPlane() {
  publisher_.stop();
  thread_.join();
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

Result<void> DataPlane::publish(const control::Publication& publication) {
  const Publish ask = [this](wire::Message message) {
    std::promise<wire::PublishedBody> answer;
    publisher_.publish(std::move(message), [&](const wire::PublishedBody& body) { answer.set_value(body); });
    return answer.get_future().get();
  };
  return send_to(ask, publication);
}

const dataplane::Snapshot& DataPlane::enter() {
  slot_->online(0);
  return *slot_->acquire();
}

}  // namespace weir::agreement
