#include "ulp/backstore/file_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace verbatim::ulp::backstore {
namespace {

using storage::StoreStatus;

constexpr std::size_t kPiecesMax = 64;  // Of one system call.

StoreStatus status_of(int code) {
  if (code == ENOSPC || code == EDQUOT || code == EFBIG) return StoreStatus::no_space;
  return code == EBADF || code == EROFS ? StoreStatus::read_only : StoreStatus::medium_error;
}

/// Calls `move(pieces, count, offset)` until all bytes are moved or it returns no byte. Returns
/// what is left, as pieces.
template <typename Move>
std::vector<iovec> move_all(std::span<const Slice> slices, std::uint64_t offset, Move move) {
  std::vector<iovec> pieces;
  for (const Slice& slice : slices) pieces.push_back({slice.data, slice.bytes});
  std::size_t first = 0;
  while (first < pieces.size()) {
    const int count = static_cast<int>(std::min(pieces.size() - first, kPiecesMax));
    auto moved = move(&pieces[first], count, static_cast<off_t>(offset));
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) break;
    offset += static_cast<std::uint64_t>(moved);
    while (moved > 0) {
      iovec& piece = pieces[first];
      const auto taken = std::min(piece.iov_len, static_cast<std::size_t>(moved));
      piece = {static_cast<std::byte*>(piece.iov_base) + taken, piece.iov_len - taken};
      moved -= static_cast<ssize_t>(taken);
      if (piece.iov_len == 0) ++first;
    }
  }
  pieces.erase(pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(first));
  return pieces;
}

}  // namespace

Result<std::unique_ptr<FileBuffers>> FileBuffers::create(const rdma::Device& device) {
  auto small = rdma::BufferPool::create(device, kSmall, kSmallBytes, IBV_ACCESS_LOCAL_WRITE);
  if (!small) return std::unexpected(small.error());
  auto large = rdma::BufferPool::create(device, kLarge, kLargeBytes, IBV_ACCESS_LOCAL_WRITE);
  if (!large) return std::unexpected(large.error());
  return std::make_unique<FileBuffers>(std::move(*small), std::move(*large));
}

bool FileBuffers::take(std::uint32_t bytes, std::vector<Slice>& loan) {
  const std::uint32_t each = bytes <= kSmallBytes ? kSmallBytes : kLargeBytes;
  loan.resize((bytes + each - 1) / each);
  if (!(each == kSmallBytes ? small_ : large_).take(loan)) return loan.clear(), false;
  loan.back().bytes = bytes - static_cast<std::uint32_t>(loan.size() - 1) * each;
  return true;
}

void FileBuffers::give_back(std::vector<Slice>& loan) {
  const auto& memory = small_.region();
  const auto bytes = memory.bytes();
  for (const Slice& slice : loan) {
    const bool is_small = slice.data >= bytes.data() && slice.data < bytes.data() + bytes.size();
    (is_small ? small_ : large_).give_back({&slice, 1});
  }
  loan.clear();
}

Result<std::unique_ptr<FileStore>> FileStore::open(FileBuffers& buffers, const std::string& path,
                                                   const Options& options) {
  const int flags = (options.is_synchronous ? O_DSYNC : 0) | (options.may_create ? O_CREAT : 0);
  Geometry geometry{.bytes = options.bytes,
                    .block_bytes = options.block_bytes,
                    .has_write_cache = !options.is_synchronous,
                    .can_deallocate = true};
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | flags, 0600));
  if (!file && (errno == EACCES || errno == EROFS)) {
    file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    geometry.is_read_only = true;
  }
  if (!file) return refuse_errno(path);
  struct stat status{};
  if (fstat(file.get(), &status) != 0) return refuse_errno(path);
  std::uint64_t own = 0;
  if (options.bytes == 0) geometry.bytes = static_cast<std::uint64_t>(status.st_size);
  if (S_ISBLK(status.st_mode) && ioctl(file.get(), BLKGETSIZE64, &own) == 0) geometry.bytes = own;
  if (!S_ISBLK(status.st_mode) && !S_ISREG(status.st_mode))
    return refuse(EINVAL, fmt::format("{} is neither a file nor a block device", path));
  geometry.bytes -= geometry.bytes % geometry.block_bytes;
  if (geometry.bytes == 0) return refuse(EINVAL, fmt::format("{} has no block", path));
  return std::make_unique<FileStore>(buffers, std::move(file), geometry);
}

FileStore::~FileStore() {
  std::erase_if(buffers_.waiting, [this](const auto& one) { return one.store == this; });
}

void FileStore::borrow(const storage::Borrow& request, Answers& to) {
  if (request.bytes == 0 || request.bytes > FileBuffers::kRequestBytesMax ||
      !has(request.offset, request.bytes))
    return to.on_pages(request.tag, StoreStatus::out_of_range, {});
  if (!buffers_.waiting.empty() || !lend(request, to))
    buffers_.waiting.push_back({this, request, &to});
}

/// False: too few buffers are free. What lies behind the end of the file reads as zeroes.
bool FileStore::lend(const storage::Borrow& request, Answers& to) {
  std::vector<Slice>& loan = loans_.at(request.tag);
  if (!buffers_.take(request.bytes, loan)) return false;
  if (request.access == storage::Access::read) {
    errno = 0;
    const auto left =
        move_all(loan, request.offset, [this](const iovec* pieces, int count, off_t at) {
          return preadv(file_.get(), pieces, count, at);
        });
    if (errno != 0 && !left.empty()) {
      const StoreStatus status = status_of(errno);
      give_back(request.tag);
      return to.on_pages(request.tag, status, {}), true;
    }
    for (const iovec& piece : left) std::memset(piece.iov_base, 0, piece.iov_len);
  }
  to.on_pages(request.tag, StoreStatus::done, loan);
  return true;
}

void FileStore::put(const storage::Put& request, Answers& to) {
  StoreStatus status = StoreStatus::done;
  if (!has(request.offset, bytes_of(request.from))) {
    status = StoreStatus::out_of_range;
  } else {
    errno = 0;
    const auto left =
        move_all(request.from, request.offset, [this](const iovec* pieces, int count, off_t at) {
          return pwritev(file_.get(), pieces, count, at);
        });
    if (!left.empty()) status = status_of(errno == 0 ? EIO : errno);
    if (left.empty() && request.to_stable && fdatasync(file_.get()) != 0) status = status_of(errno);
  }
  to.on_stored(request.tag, status);
  give_back(request.tag);
}

void FileStore::give_back(Tag tag) {
  buffers_.give_back(loans_.at(tag));
  auto& waiting = buffers_.waiting;
  while (!waiting.empty()) {
    const auto next = waiting.front();
    if (!next.store->lend(next.request, *next.to)) return;
    waiting.pop_front();
  }
}

void FileStore::flush(const storage::Flush& request, Answers& to) {
  const bool is_done = fdatasync(file_.get()) == 0;
  to.on_stored(request.tag, is_done ? StoreStatus::done : status_of(errno));
}

void FileStore::clear(const storage::Clear& request, Answers& to) {
  if (!has(request.offset, request.bytes))
    return to.on_stored(request.tag, StoreStatus::out_of_range);
  const auto at = static_cast<off_t>(request.offset), bytes = static_cast<off_t>(request.bytes);
  const int how = request.may_deallocate ? FALLOC_FL_PUNCH_HOLE : FALLOC_FL_ZERO_RANGE;
  if (fallocate(file_.get(), how | FALLOC_FL_KEEP_SIZE, at, bytes) == 0)
    return to.on_stored(request.tag, StoreStatus::done);
  static const std::vector<std::byte> kZeroes(FileBuffers::kLargeBytes);
  StoreStatus status = StoreStatus::done;
  for (std::uint64_t done = 0; done < request.bytes && status == StoreStatus::done;) {
    const std::size_t part = std::min<std::uint64_t>(request.bytes - done, kZeroes.size());
    const auto written =
        pwrite(file_.get(), kZeroes.data(), part, static_cast<off_t>(request.offset + done));
    if (written > 0) done += static_cast<std::uint64_t>(written);
    if (written <= 0 && errno != EINTR) status = status_of(errno);
  }
  to.on_stored(request.tag, status);
}

}  // namespace verbatim::ulp::backstore
