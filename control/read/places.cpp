#include "control/read/places.h"

#include "common/paths.h"
#include "common/yaml/yaml.h"

namespace weir::control {

namespace {

const yaml::Node* member(const yaml::Node& node, std::string_view key) {
  for (const auto& [name, value] : node.members) {
    if (name.text == key) return &value;
  }
  return nullptr;
}

}  // namespace

Places find_places(const std::string& config) {
  Places places;
  Diagnostics ignored;
  const std::optional<yaml::Document> document = yaml::read_document(config, ignored);
  const yaml::Node nothing;
  const yaml::Node& root = document ? document->root : nothing;

  const yaml::Node* state_dir = member(root, "state_dir");
  places.state_dir = state_dir != nullptr && !state_dir->text.empty() ? state_dir->text : default_state_dir();

  const yaml::Node* targets = member(root, "targets");
  if (targets == nullptr) {
    places.targets.push_back({default_dataplane_socket(), std::nullopt});
    return places;
  }
  places.targets = find_targets(*targets);
  return places;
}

}  // namespace weir::control
