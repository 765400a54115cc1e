#include "fabric/data/virtual/virtual_fabric.h"

#include "base/assert.h"
#include "fabric/data/walk/repair.h"

namespace verbatim::fabric {

template class Walker<VirtualPolicy>;

Result<std::unique_ptr<VirtualFabric>> VirtualFabric::create(const Topology& topology,
                                                             const ImageOptions& options) {
  Result<Image> image = Image::create(topology, options);
  if (!image) return std::unexpected(std::move(image.error()));
  return std::unique_ptr<VirtualFabric>(new VirtualFabric(std::move(*image)));
}

std::optional<std::uint32_t> VirtualFabric::step() {
  if (next_event() == kNever) return std::nullopt;
  const VirtualPolicy::Event event = policy_.take();
  policy_.now_ = event.at;
  walker_.arrive(event.link, event.handle);
  if (!image_.is_of_end(event.link)) return std::nullopt;
  return image_.end_of(event.link);
}

void VirtualFabric::wait_until(TimeNs time) {
  VERBATIM_ASSERT(time <= next_event());
  policy_.now_ = std::max(policy_.now_, time);
}

}  // namespace verbatim::fabric
