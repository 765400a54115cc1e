#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verbatim::cli::doctor {

/// How an ELF file is loaded, and which RDMA libraries it names.
struct ElfFile {
  bool is_64_bit = true;
  std::uint16_t machine = 0;        // e_machine: EM_X86_64, EM_AARCH64.
  bool is_dynamic = false;          // Has an interpreter: the dynamic loader starts it.
  std::string loader;               // PT_INTERP: "/lib64/ld-linux-x86-64.so.2".
  std::vector<std::string> needed;  // Libraries that the loader loads at start.
  std::vector<std::string> rpath;   // Folders before LD_LIBRARY_PATH; DT_RUNPATH disables them.
  /// RDMA libraries that it could load later (dlopen): "libibverbs.so.1".
  std::vector<std::string> rdma_names;
  bool sets_asan_options = false;    // It has a function that AddressSanitizer asks.
  bool contains_libibverbs = false;  // rdma-core's code is linked statically.
};

/// Returns nothing if the file cannot be read, or is no ELF file of this byte order.
std::optional<ElfFile> read_elf(const std::string& path);

}  // namespace verbatim::cli::doctor
