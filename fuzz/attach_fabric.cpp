// Any bytes in the memory of a fabric, as a hostile process could write them: who attaches is
// refused, or moves, receives, repairs and reads tables without touching anything outside of it.
#include <cstring>
#include <memory>

#include <sys/mman.h>

#include "base/assert.h"
#include "fabric/data/shared_fabric.h"
#include "fabric/topology/builder.h"
#include "fuzz/input.h"

namespace {

using namespace verbatim;
using namespace verbatim::fabric;

Topology two_switches() {
  Builder builder({LinkWidth::x4, LinkSpeed::edr}, 0);
  const std::uint32_t first = builder.add_numbered(NodeKind::switch_node, 'S', 4);
  const std::uint32_t second = builder.add_numbered(NodeKind::switch_node, 'S', 4);
  builder.connect(first, second);
  builder.connect(first, builder.add_numbered(NodeKind::adapter, 'H', 1));
  builder.connect(second, builder.add_numbered(NodeKind::adapter, 'H', 1));
  return builder.take();
}

/// Writes input over one of the parts: headers of slots and links rather than payload.
void scribble(const Image& image, Input& input) {
  const auto over = [&](void* at, std::size_t bytes) {
    const std::size_t offset = input.two() % bytes;
    for (std::size_t i = offset; i < std::min(bytes, offset + 8); ++i) {
      static_cast<std::byte*>(at)[i] = static_cast<std::byte>(input.byte());
    }
  };
  switch (input.byte() % 6) {
    case 0:
      return over(&image.slot(input.two()), 64);
    case 1:
      return over(&image.link(input.byte()), sizeof(LinkRecord));
    case 2:
      return over(&image.node(input.byte()), sizeof(NodeRecord));
    case 3:
      return over(&image.port(image.node(input.byte()), input.byte() % 16), sizeof(PortRecord));
    case 4:
      return over(&image.ring(image.first_end_link() + input.byte() % 8), 192);
    default:
      return over(&image.end(input.byte() % 4), sizeof(EndRecord));
  }
}

void use(SharedFabric& fabric, Input& input) {
  const auto mover = fabric.join();
  if (!mover) return;
  Walker<SharedPolicy>& walker = (*mover)->walker();
  End end(fabric.image(), input.byte() % 4);
  const std::byte bytes[64] = {};
  const ByteSpan piece(bytes);
  while (!input.empty()) {
    scribble(fabric.image(), input);
    if (end.reserve(input.byte() % 16, sizeof bytes)) {
      end.post({.pieces = {&piece, 1}, .dlid = Lid(input.two()), .destination = Qpn(input.two())});
    }
    end.push(walker);
    walker.run_due(input.two());
    end.receive(walker, kNever, [](const IncomingPacket& packet) {
      VERBATIM_ASSERT(packet.bytes.size() <= kPacketBytesMax);
    });
    fabric.tables().counts(input.byte(), input.byte());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  ImageOptions options;
  options.ends_max = 4;
  options.movers_max = 4;
  options.copy_slots = 16;
  options.is_active = true;
  const auto made = SharedFabric::create(two_switches(), options);
  VERBATIM_ASSERT(made.has_value());
  const Header& header = (*made)->image().header();
  const Extent extent = header.extent;
  if (input.byte() % 4 == 0) {
    std::byte changed[sizeof(Header)];
    std::memcpy(changed, static_cast<const void*>(&header), sizeof changed);
    for (int i = 0; i < 4; ++i) {
      changed[input.byte() % sizeof changed] = static_cast<std::byte>(input.byte());
    }
    std::memcpy(static_cast<void*>(&(*made)->image().header()), changed, sizeof changed);
  }
  const auto other = SharedFabric::attach((*made)->fd());
  if (!other) return 0;
  VERBATIM_ASSERT((*other)->image().extent().slots >= extent.ends);
  use(**other, input);
  return 0;
}
