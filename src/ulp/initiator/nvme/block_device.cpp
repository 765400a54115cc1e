#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include <unistd.h>

#include "ulp/initiator/nvme/device_answer.h"
#include "ulp/initiator/nvme/nvme_controllers.h"
#include "ulp/nvmeof/wire/command.h"

/// Block devices as programs read, write and ask them: read(2), lseek(2), the ioctls of blockdev.
namespace verbatim::ulp::initiator {
namespace {

using nvmeof::AdminCommand;
using nvmeof::AdminOpcode;
using nvmeof::Opcode;

/// Bytes of a request at an offset, and the blocks that have them.
struct Extent {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint64_t first_block = 0;
  std::uint32_t blocks = 0;
  std::uint32_t before = 0;  // Bytes of the first block that are not asked for.
};

/// As much as a command moves: what is asked for is cut.
Extent extent_of(const NvmeSpace& space, std::uint64_t offset, std::uint32_t bytes) {
  const std::uint64_t size = space.blocks << space.block_shift;
  const std::uint32_t block = 1u << space.block_shift;
  Extent extent{.offset = offset,
                .first_block = offset >> space.block_shift,
                .before = static_cast<std::uint32_t>(offset & (block - 1))};
  extent.bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      {bytes, size - offset, DeviceRequest::kDataBytesMax - extent.before}));
  extent.blocks = (extent.before + extent.bytes + block - 1) >> space.block_shift;
  return extent;
}

AdminCommand command_of(Opcode opcode, const NvmeSpace& space, const Extent& extent) {
  AdminCommand command{.opcode = AdminOpcode{raw(opcode)}, .namespace_id = space.id};
  command.dwords[0] = static_cast<std::uint32_t>(extent.first_block);
  command.dwords[1] = static_cast<std::uint32_t>(extent.first_block >> 32);
  command.dwords[2] = extent.blocks - 1;
  return command;
}

constexpr std::uint32_t kPageBytes = 4096;
/// An I/O command's number in a structure that is of either kind.
constexpr auto kFlush = AdminOpcode{raw(Opcode::flush)};

/// As Linux's block layer tells a program.
int error_of(const NvmeController::Answer& answer) {
  if (answer.code != 0) return answer.code;
  const nvmeof::Status status = answer.completion.status;
  return status == nvmeof::Status::reservation_conflict ? EBADE : nvmeof::error_of(status);
}

}  // namespace

void NvmeControllers::control_disk(OpenFile file, const Disk& disk, Controller& controller,
                                   const DeviceRequest& request, const Controlled& done) {
  const std::uint64_t block = 1ull << disk.space.block_shift;
  const std::uint64_t bytes = disk.space.blocks << disk.space.block_shift;
  switch (request.call) {
    case DeviceCall::bytes:
      return done(0, answer_of(0, bytes));
    case DeviceCall::sectors:
      return done(0, answer_of(0, bytes >> 9));
    case DeviceCall::block_bytes:
    case DeviceCall::physical_bytes:
    case DeviceCall::least_bytes:
      return done(0, answer_of(0, block));
    case DeviceCall::page_bytes:
      return done(0, answer_of(0, kPageBytes));
    case DeviceCall::set_page_bytes: {
      const std::uint32_t wanted = request.command.dword(10);
      const bool is_size = std::has_single_bit(wanted) && wanted >= block && wanted <= kPageBytes;
      return done(is_size ? 0 : EINVAL, answer_of(0));
    }
    case DeviceCall::best_bytes:
    case DeviceCall::is_read_only:
    case DeviceCall::alignment:
    case DeviceCall::zeroes_by_discard:
    case DeviceCall::is_rotational:
      return done(0, answer_of(0, 0));
    case DeviceCall::flush:
    case DeviceCall::flush_buffers:
      return controller.engine->ask_io(
          {.opcode = kFlush, .namespace_id = disk.space.id}, 0, {},
          [done](const NvmeController::Answer& answer) { done(error_of(answer), answer_of(0)); });
    case DeviceCall::seek:
      return seek(file, disk, request, done);
    case DeviceCall::discard:
    case DeviceCall::write_zeroes:
      return clear(disk, controller, request, done);
    case DeviceCall::read:
    case DeviceCall::write:
      return move(file, disk, controller, request, done);
    default:
      return done(ENOTTY, "");
  }
}

/// As much as one command clears, which is the answer's value: the view's library asks again.
void NvmeControllers::clear(const Disk& disk, Controller& controller, const DeviceRequest& request,
                            const Controlled& done) {
  constexpr std::uint64_t kBlocksMax = 65536;
  constexpr std::uint32_t kDeallocate = 4;
  const std::uint32_t shift = disk.space.block_shift;
  const std::uint64_t size = disk.space.blocks << shift;
  const std::uint64_t offset = request.offset(), length = request.length();
  const bool is_whole = ((offset | length) & ((1u << shift) - 1)) == 0;
  if (!is_whole || length == 0 || offset > size || length > size - offset) return done(EINVAL, "");
  const auto blocks = static_cast<std::uint32_t>(std::min(length >> shift, kBlocksMax));
  const auto cleared = [done, bytes = std::uint64_t{blocks}
                                      << shift](const NvmeController::Answer& answer) {
    const int code = error_of(answer);
    done(code, code == 0 ? answer_of(0, bytes) : "");
  };
  const Extent extent{.first_block = offset >> shift, .blocks = blocks};
  if (request.call == DeviceCall::write_zeroes)
    return controller.engine->ask_io(command_of(Opcode::write_zeroes, disk.space, extent), 0, {},
                                     cleared);
  // A range: attributes, blocks, the first one.
  std::array<std::byte, 16> range{};
  store_le(&range[4], blocks);
  store_le(&range[8], extent.first_block);
  AdminCommand command{.opcode = AdminOpcode{raw(Opcode::dataset_management)},
                       .namespace_id = disk.space.id};
  command.dwords[1] = kDeallocate;
  controller.engine->ask_io(command, range.size(), range, cleared);
}

void NvmeControllers::seek(OpenFile file, const Disk& disk, const DeviceRequest& request,
                           const Controlled& done) {
  const std::uint64_t size = disk.space.blocks << disk.space.block_shift;
  const auto position = positions_.find(file);
  const std::uint64_t now = position == positions_.end() ? 0 : position->second;
  const std::uint64_t from = request.how() == SEEK_CUR ? now : request.how() == SEEK_END ? size : 0;
  if (request.how() > SEEK_END) return done(EINVAL, "");
  const std::uint64_t to = from + request.offset();  // Modulo 2^64: it may be negative.
  if (to > size) return done(EINVAL, "");
  positions_[file] = to;
  done(0, answer_of(0, to));
}

/// What is no whole block is read before it is written.
void NvmeControllers::move(OpenFile file, const Disk& disk, Controller& controller,
                           const DeviceRequest& request, const Controlled& done) {
  const bool is_write = request.call == DeviceCall::write;
  const bool is_at_position = request.how() == DeviceRequest::kAtPosition;
  // The program may close it before the answer.
  const std::uint64_t offset =
      is_at_position ? positions_.try_emplace(file, 0).first->second : request.offset();
  const NvmeSpace& space = disk.space;
  const std::uint64_t size = space.blocks << space.block_shift;
  if (offset >= size || request.data_bytes == 0)
    return done(is_write && request.data_bytes != 0 ? ENOSPC : 0, answer_of(0));
  const Extent extent = extent_of(space, offset, request.data_bytes);
  const auto finish = [this, file, is_at_position, extent, done](
                          const NvmeController::Answer& answer, ByteSpan data) {
    const int code = error_of(answer);
    const auto position = positions_.find(file);
    if (code == 0 && is_at_position && position != positions_.end())
      position->second = extent.offset + extent.bytes;
    done(code, code == 0 ? answer_of(static_cast<int>(extent.bytes), 0, data) : "");
  };
  const std::uint32_t whole = extent.blocks << space.block_shift;
  NvmeController& engine = *controller.engine;
  const AdminCommand read = command_of(Opcode::read, space, extent);
  if (!is_write) {
    return engine.ask_io(read, whole, {}, [finish, extent](const NvmeController::Answer& answer) {
      finish(answer,
             answer.data.empty() ? ByteSpan{} : answer.data.subspan(extent.before, extent.bytes));
    });
  }
  const auto written = [finish](const NvmeController::Answer& answer) { finish(answer, {}); };
  const AdminCommand write = command_of(Opcode::write, space, extent);
  if (extent.bytes == whole) return engine.ask_io(write, whole, request.data.first(whole), written);
  std::vector<std::byte> part(request.data.begin(), request.data.begin() + extent.bytes);
  engine.ask_io(read, whole, {},
                [this, number = controller.number, part = std::move(part), write, written, extent,
                 whole](const NvmeController::Answer& answer) {
                  Controller* const found = find(number);
                  if (error_of(answer) != 0 || found == nullptr) return written(answer);
                  std::vector<std::byte> blocks(answer.data.begin(), answer.data.end());
                  std::ranges::copy(part, blocks.begin() + extent.before);
                  found->engine->ask_io(write, whole, blocks, written);
                });
}

}  // namespace verbatim::ulp::initiator
