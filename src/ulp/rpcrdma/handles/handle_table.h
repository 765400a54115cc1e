#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <fcntl.h>

namespace verbatim::ulp::rpcrdma {

/// A kernel's file handle as a key: its type and its bytes.
std::string key_of(const file_handle& handle);
/// That of an open file, or of `name` in the folder `at`. Empty: it has none.
std::string key_of(int at, const char* name);

/// Which handles were ever put here, in 8 MiB. Of those that were not, it takes for one that was:
/// with 10,000 files one in 11 million, with 10 million one in 15. Salted, so that none can be made
/// up to be taken so.
class SeenHandles {
 public:
  SeenHandles();
  void put(const std::string& key);
  bool may_contain(const std::string& key) const;

 private:
  static constexpr std::size_t kBits = 1 << 26;
  std::array<std::size_t, 2> places_of(const std::string& key) const;
  const std::string salt_;
  std::vector<bool> bits_ = std::vector<bool>(kBits);
};

/// Paths of files by handle. A path is a guess: `open` checks that it leads to the same file, and
/// looks for the file in the exported folder if not. Once it has looked through, it has seen every
/// handle that a server has given: one that a client has made up is refused without looking. Any
/// thread may call it.
class HandleTable {
 public:
  static constexpr std::size_t kEntriesMax = 1 << 18;  // Then it forgets all, and looks again.

  explicit HandleTable(std::string exported) : exported_(std::move(exported)) {}

  /// `name` in the folder `at` has the handle.
  void add(const std::string& key, int at, const char* name);
  /// As open_by_handle_at: -1 and ESTALE if the file is no more.
  int open(const std::string& key, int flags);
  /// How often it has looked through the folder.
  std::uint32_t searches() const { return searches_; }

 private:
  /// None: its path is not known.
  std::optional<int> open_known(const std::string& key, int flags);
  void put(const std::string& key, std::string path);
  void look_through(const std::string& folder, int depth);

  const std::string exported_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::string> paths_;
  SeenHandles seen_;
  std::uint32_t searches_ = 0;
  std::unordered_set<std::string> gone_;  // Handles of files that are no more: none comes back.
};

}  // namespace verbatim::ulp::rpcrdma
