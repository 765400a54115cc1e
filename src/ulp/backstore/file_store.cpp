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

constexpr std::size_t kPiecesMax = 64;   // Of one operation.
constexpr std::size_t kAlignment = 512;  // O_DIRECT.

StoreStatus status_of(std::int64_t code) {
  if (code == ENOSPC || code == EDQUOT || code == EFBIG) return StoreStatus::no_space;
  return code == EBADF || code == EROFS ? StoreStatus::read_only : StoreStatus::medium_error;
}

std::vector<iovec> pieces_of(std::span<const Slice> slices) {
  std::vector<iovec> pieces;
  for (const Slice& slice : slices) pieces.push_back({slice.data, slice.bytes});
  return pieces;
}

std::span<const std::byte> zeroes() {
  alignas(4096) static constexpr std::byte kZeroes[256 << 10]{};
  return kZeroes;
}

}  // namespace

Result<std::unique_ptr<FileStore>> FileStore::open(FileBuffers& buffers, const std::string& path,
                                                   const Options& options) {
  struct stat status{};
  const bool is_device = stat(path.c_str(), &status) == 0 && S_ISBLK(status.st_mode);
  const bool is_direct = options.is_direct || is_device;
  const int flags = (options.is_synchronous ? O_DSYNC : 0) | (is_direct ? O_DIRECT : 0);
  Geometry geometry{.bytes = options.bytes,
                    .block_bytes = options.block_bytes,
                    .has_write_cache = !options.is_synchronous,
                    .can_deallocate = true};
  UniqueFd file(
      ::open(path.c_str(), O_RDWR | O_CLOEXEC | flags | (options.may_create ? O_CREAT : 0), 0600));
  if (!file && (errno == EACCES || errno == EROFS)) {
    file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
    geometry.is_read_only = true;
  }
  if (!file) return refuse_errno(path);
  if (fstat(file.get(), &status) != 0) return refuse_errno(path);
  std::uint64_t own = 0;
  if (options.bytes == 0) geometry.bytes = static_cast<std::uint64_t>(status.st_size);
  if (S_ISBLK(status.st_mode) && ioctl(file.get(), BLKGETSIZE64, &own) == 0) geometry.bytes = own;
  if (!S_ISBLK(status.st_mode) && !S_ISREG(status.st_mode))
    return refuse(EINVAL, fmt::format("{} is neither a file nor a block device", path));
  geometry.bytes -= geometry.bytes % geometry.block_bytes;
  if (geometry.bytes == 0) return refuse(EINVAL, fmt::format("{} has no block", path));
  return std::make_unique<FileStore>(buffers, std::move(file), geometry, is_direct);
}

FileStore::~FileStore() {
  std::erase_if(buffers_.waiting, [this](const auto& one) { return one.store == this; });
  for (Request& request : requests_) request.to = nullptr;
  while (free_.size() < requests_.size()) {
    buffers_.queue().wait();
    reap_all(buffers_);
  }
}

std::size_t FileStore::reap_all(FileBuffers& buffers) {
  return buffers.queue().reap([](void* user, std::int64_t result) {
    auto& request = *static_cast<Request*>(user);
    request.store->on_end(request, result);
  });
}

FileStore::Request& FileStore::begin(Request::Kind kind, Tag tag, Answers& to) {
  if (free_.empty()) free_.push_back(&requests_.emplace_back());
  Request& request = *free_.back();
  free_.pop_back();
  request.store = this;
  request.to = &to;
  request.tag = tag;
  request.kind = kind;
  request.to_stable = false;
  request.pieces.clear();
  return request;
}

/// Writes have given their loan back before they are answered, when their tag may begin another
/// request: what waits for the loan may be answered first.
void FileStore::finish(Request& request, StoreStatus status) {
  const Tag tag = request.tag;
  Answers* const to = request.to;
  const Request::Kind kind = request.kind;
  free_.push_back(&request);
  if (to == nullptr) return;  // The store is being destroyed.
  if (kind == Request::Kind::read) {
    if (status == StoreStatus::done) return to->on_pages(tag, status, loans_.at(tag));
    give_back(tag);
    return to->on_pages(tag, status, {});
  }
  give_back(tag);  // Of a write: a stable one has become a sync. All others have none.
  to->on_stored(tag, status);
}

void FileStore::go_on(Request& request) {
  using Kind = DiskOperation::Kind;
  DiskOperation operation{.file = file_.get(), .offset = request.offset, .user = &request};
  switch (request.kind) {
    case Request::Kind::read:
    case Request::Kind::write:
      operation.kind = request.kind == Request::Kind::read ? Kind::read : Kind::write;
      operation.pieces =
          std::span(request.pieces).first(std::min(request.pieces.size(), kPiecesMax));
      break;
    case Request::Kind::sync:
      operation.kind = Kind::sync;
      break;
    case Request::Kind::clear:
      operation.kind = Kind::allocate;
      operation.bytes = request.left;
      operation.mode = request.mode;
      break;
    case Request::Kind::zero: {
      const std::size_t part = std::min<std::uint64_t>(request.left, zeroes().size());
      request.pieces = {{const_cast<std::byte*>(zeroes().data()), part}};
      operation.kind = Kind::write;
      operation.pieces = request.pieces;
      break;
    }
  }
  buffers_.queue().start(operation);
}

/// A sync that fails is told to all that were under way: the kernel tells a descriptor once, and
/// cannot say whose data it was.
void FileStore::sync(Request& request) {
  request.kind = Request::Kind::sync;
  request.failures = sync_failures_;
  go_on(request);
}

void FileStore::advance(Request& request, std::uint64_t moved) {
  request.offset += moved;
  auto piece = request.pieces.begin();
  for (; piece != request.pieces.end() && moved >= piece->iov_len; ++piece) moved -= piece->iov_len;
  request.pieces.erase(request.pieces.begin(), piece);
  if (moved == 0) return;
  iovec& first = request.pieces.front();
  first = {static_cast<std::byte*>(first.iov_base) + moved, first.iov_len - moved};
}

void FileStore::on_end(Request& request, std::int64_t result) {
  if (result == -EINTR || result == -EAGAIN) return go_on(request);
  const bool fails = result < 0;
  switch (request.kind) {
    case Request::Kind::read:
      if (fails) return finish(request, status_of(-result));
      if (result == 0) {  // What lies behind the end of the file reads as zeroes.
        for (const iovec& piece : request.pieces) std::memset(piece.iov_base, 0, piece.iov_len);
        return finish(request, StoreStatus::done);
      }
      advance(request, static_cast<std::uint64_t>(result));
      return request.pieces.empty() ? finish(request, StoreStatus::done) : go_on(request);
    case Request::Kind::write:
      if (result <= 0) return finish(request, status_of(fails ? -result : EIO));
      advance(request, static_cast<std::uint64_t>(result));
      if (!request.pieces.empty()) return go_on(request);
      return request.to_stable ? sync(request) : finish(request, StoreStatus::done);
    case Request::Kind::sync: {
      if (fails) ++sync_failures_;
      const bool failed = request.failures != sync_failures_;
      return finish(request, failed ? status_of(fails ? -result : EIO) : StoreStatus::done);
    }
    case Request::Kind::clear:
      if (!fails) return finish(request, StoreStatus::done);
      if (result != -EOPNOTSUPP && result != -EINVAL && result != -ENOSYS)
        return finish(request, status_of(-result));
      request.kind = Request::Kind::zero;
      return go_on(request);
    case Request::Kind::zero:
      if (result <= 0) return finish(request, status_of(fails ? -result : EIO));
      request.offset += static_cast<std::uint64_t>(result);
      request.left -= static_cast<std::uint64_t>(result);
      return request.left == 0 ? finish(request, StoreStatus::done) : go_on(request);
  }
}

void FileStore::borrow(const storage::Borrow& request, Answers& to) {
  if (request.bytes == 0 || request.bytes > FileBuffers::kRequestBytesMax ||
      !has(request.offset, request.bytes))
    return to.on_pages(request.tag, StoreStatus::out_of_range, {});
  if (!buffers_.waiting.empty() || !lend(request, to))
    buffers_.waiting.push_back({this, request, &to});
}

/// False: too few buffers are free.
bool FileStore::lend(const storage::Borrow& request, Answers& to) {
  std::vector<Slice>& loan = loans_.at(request.tag);
  if (!buffers_.take(request.bytes, loan)) return false;
  if (request.access == storage::Access::write)
    return to.on_pages(request.tag, StoreStatus::done, loan), true;
  Request& read = begin(Request::Kind::read, request.tag, to);
  read.offset = request.offset;
  read.pieces = pieces_of(loan);
  if (!is_direct_) read_what_is_cached(read);
  if (read.pieces.empty())
    finish(read, StoreStatus::done);
  else
    go_on(read);
  return true;
}

/// One call without waiting: as a rule all of it is in the page cache.
void FileStore::read_what_is_cached(Request& request) {
  const int count = static_cast<int>(std::min(request.pieces.size(), kPiecesMax));
  const auto moved = preadv2(file_.get(), request.pieces.data(), count,
                             static_cast<off_t>(request.offset), RWF_NOWAIT);
  if (moved > 0) advance(request, static_cast<std::uint64_t>(moved));
}

bool FileStore::can_write_from(std::span<const Slice> slices) const {
  return !is_direct_ || std::ranges::all_of(slices, [](const Slice& slice) {
    return reinterpret_cast<std::uintptr_t>(slice.data) % kAlignment == 0 &&
           slice.bytes % kAlignment == 0;
  });
}

void FileStore::put(const storage::Put& request, Answers& to) {
  if (!has(request.offset, bytes_of(request.from))) {
    give_back(request.tag);
    return to.on_stored(request.tag, StoreStatus::out_of_range);
  }
  if (!can_write_from(request.from)) {
    if (!buffers_.waiting.empty() || !write_copy(request, to))
      buffers_.waiting.push_back({this, request, &to});
    return;
  }
  Request& write = begin(Request::Kind::write, request.tag, to);
  write.offset = request.offset;
  write.to_stable = request.to_stable && geometry_.has_write_cache;
  write.pieces = pieces_of(request.from);
  go_on(write);
}

/// What came in a message lies anywhere; O_DIRECT wants it aligned. False: too few buffers are
/// free.
bool FileStore::write_copy(const storage::Put& request, Answers& to) {
  std::vector<Slice>& loan = loans_.at(request.tag);
  if (!buffers_.take(static_cast<std::uint32_t>(bytes_of(request.from)), loan)) return false;
  std::size_t into = 0, at = 0;
  for (const Slice& slice : request.from) {
    for (std::uint32_t done = 0; done < slice.bytes;) {
      const auto part = std::min<std::size_t>(slice.bytes - done, loan[into].bytes - at);
      std::memcpy(loan[into].data + at, slice.data + done, part);
      done += static_cast<std::uint32_t>(part);
      at += part;
      if (at == loan[into].bytes) ++into, at = 0;
    }
  }
  put({.tag = request.tag,
       .unit = request.unit,
       .offset = request.offset,
       .from = loan,
       .to_stable = request.to_stable},
      to);
  return true;
}

void FileStore::give_back(Tag tag) {
  buffers_.give_back(loans_.at(tag));
  auto& waiting = buffers_.waiting;
  while (!waiting.empty()) {
    const FileBuffers::Waiting next = waiting.front();
    const auto* const borrow = std::get_if<storage::Borrow>(&next.request);
    const bool goes_on =
        borrow != nullptr ? next.store->lend(*borrow, *next.to)
                          : next.store->write_copy(std::get<storage::Put>(next.request), *next.to);
    if (!goes_on) return;
    waiting.pop_front();
  }
}

void FileStore::flush(const storage::Flush& request, Answers& to) {
  sync(begin(Request::Kind::sync, request.tag, to));
}

void FileStore::clear(const storage::Clear& request, Answers& to) {
  if (!has(request.offset, request.bytes))
    return to.on_stored(request.tag, StoreStatus::out_of_range);
  Request& clear = begin(Request::Kind::clear, request.tag, to);
  clear.offset = request.offset;
  clear.left = request.bytes;
  clear.mode =
      FALLOC_FL_KEEP_SIZE | (request.may_deallocate ? FALLOC_FL_PUNCH_HOLE : FALLOC_FL_ZERO_RANGE);
  go_on(clear);
}

}  // namespace verbatim::ulp::backstore
