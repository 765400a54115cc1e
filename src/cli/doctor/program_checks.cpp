#include <algorithm>
#include <array>
#include <string_view>

#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/doctor/checks.h"
#include "cli/doctor/facts/program.h"

namespace verbatim::cli::doctor {
namespace {

/// Programs that start others, perhaps without the environment of `verbatim run`.
struct Launcher {
  std::string_view name;
  std::string_view why;
  std::string_view advice;
};
constexpr auto kLaunchers = std::to_array<Launcher>({
    {"sudo", "sudo takes the variables out of the environment", "sudo verbatim run -- PROGRAM"},
    {"su", "su takes the variables out of the environment", "su USER -c 'verbatim run -- PROGRAM'"},
    {"docker", "a container has libraries and an environment of its own",
     "put Verbatim into the image, and 'verbatim run --' before the program in the container"},
    {"podman", "a container has libraries and an environment of its own",
     "put Verbatim into the image, and 'verbatim run --' before the program in the container"},
    {"kubectl", "a container has libraries and an environment of its own",
     "put Verbatim into the image, and 'verbatim run --' before the program in the container"},
    {"ssh", "the other machine does not get the variables",
     "ssh HOST verbatim run -- PROGRAM, with Verbatim installed there"},
    {"srun", "the nodes of the job need Verbatim, too", "srun verbatim run -- PROGRAM"},
    {"mpirun", "ranks on other machines do not get the variables",
     "mpirun verbatim run -- PROGRAM (on one machine the variables arrive)"},
    {"systemd-run", "a unit does not get the variables", "systemd-run verbatim run -- PROGRAM"},
    {"valgrind", "programs under valgrind take the wire, and both ends of a connection then do",
     "nothing; for the direct path, run the program without valgrind"},
    {"flatpak", "a sandbox has libraries of its own", "run the program outside of it"},
});

struct ArchitectureName {
  std::uint16_t machine;
  std::string_view name;
};
constexpr auto kArchitectures = std::to_array<ArchitectureName>({
    {EM_X86_64, "x86-64"},
    {EM_386, "x86 (32 bits)"},
    {EM_AARCH64, "aarch64"},
    {EM_ARM, "ARM (32 bits)"},
    {EM_PPC64, "ppc64"},
    {EM_S390, "s390"},
    {EM_RISCV, "RISC-V"},
});

std::string architecture_name(const ElfFile& elf) {
  const auto known = std::ranges::find(kArchitectures, elf.machine, &ArchitectureName::machine);
  const std::string bits = elf.is_64_bit ? "" : ", 32 bits";
  return known == kArchitectures.end() ? fmt::format("machine {}{}", elf.machine, bits)
                                       : std::string(known->name);
}

/// The ELF file of this program, whose architecture is that of our libraries.
const ElfFile& own_elf() {
  static const ElfFile elf = read_elf("/proc/self/exe").value_or(ElfFile{});
  return elf;
}

bool is_rdma_library(std::string_view name) {
  return name.starts_with("libibverbs.so") || name.starts_with("librdmacm.so");
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

/// Returns the file, of the program and its libraries, whose DT_RPATH contains `folder`; empty if
/// none does.
std::string file_with_rpath(const Program& program, const std::string& folder) {
  const auto leads_there = [&](const ElfFile& elf, const std::string& path) {
    return std::ranges::any_of(elf.rpath, [&](std::string entry) {
      for (const std::string_view origin : {"$ORIGIN", "${ORIGIN}"}) {
        if (entry.starts_with(origin)) entry.replace(0, origin.size(), folder_of(path));
      }
      while (entry.size() > 1 && entry.ends_with('/')) entry.pop_back();
      return entry == folder;
    });
  };
  if (program.elf && program.path && leads_there(*program.elf, *program.path)) {
    return *program.path;
  }
  for (const LoadedLibrary& library : program.libraries) {
    if (leads_there(library.elf, library.path)) return library.path;
  }
  return {};
}

Finding judge_foreign(const Program& program, const LoadedLibrary& library) {
  const std::string rpath = file_with_rpath(program, folder_of(library.path));
  const std::string text =
      fmt::format("{} comes from {}, not from Verbatim", library.name, library.path);
  if (!rpath.empty()) {
    return fault("libraries",
                 fmt::format("{}: the RPATH of {} goes before LD_LIBRARY_PATH", text, rpath),
                 fmt::format("patchelf --remove-rpath {0}, or link it with "
                             "-Wl,--enable-new-dtags (RUNPATH goes after LD_LIBRARY_PATH)",
                             rpath));
  }
  if (program.gains_rights) {
    return fault("libraries", text, "start it as the user whose rights it gains");
  }
  return fault("libraries", text,
               "look for that path in LD_PRELOAD, in /etc/ld.so.preload and in what the program is "
               "linked with (readelf -d)");
}

}  // namespace

Findings check_program_file(const Program& program) {
  constexpr const char* kSubject = "file";
  if (!program.path) {
    return {fault(kSubject, program.path.error().text, "give the path of an executable file")};
  }
  if (!program.missing_interpreter.empty()) {
    return {
        fault(kSubject,
              fmt::format("is a script for {}, which is not there", program.missing_interpreter),
              "install the interpreter, or correct the script's first line")};
  }
  if (program.is_script_without_interpreter) {
    return {note(kSubject, "is neither a program nor a script with '#!': a shell reads it",
                 "write #!/bin/sh into the first line")};
  }
  if (!program.interpreters.empty()) {
    return {ok(kSubject, fmt::format("a script that {} runs; what it starts inherits the variables",
                                     fmt::join(program.interpreters, ", and this ")))};
  }
  return {ok(kSubject, *program.path)};
}

Findings check_launcher(const Program& program) {
  const std::string_view name =
      std::string_view(program.command).substr(program.command.rfind('/') + 1);
  const auto known = std::ranges::find(kLaunchers, name, &Launcher::name);
  if (known == kLaunchers.end()) return {};
  return {note("launcher", std::string(known->why), std::string(known->advice))};
}

Findings check_rights(const Program& program) {
  if (!program.gains_rights) return {};
  return {fault("rights",
                "it gains rights when it starts (set-user-id, set-group-id or file capabilities), "
                "and the loader ignores LD_LIBRARY_PATH then",
                "run it as the user whose rights it gains (sudo verbatim run -- ...), or use a "
                "copy without them (cp, chmod u-s; setcap -r)")};
}

Findings check_architecture(const Program& program) {
  constexpr const char* kSubject = "architecture";
  if (!program.elf) return {};
  const ElfFile& elf = *program.elf;
  const std::string name = architecture_name(elf);
  if (elf.machine == own_elf().machine && elf.is_64_bit == own_elf().is_64_bit) {
    return {ok(kSubject, name)};
  }
  return {
      fault(kSubject,
            fmt::format("{}; Verbatim's libraries are for {}", name, architecture_name(own_elf())),
            "use a program for this architecture, or build Verbatim for the program's")};
}

Findings check_loader(const Program& program) {
  constexpr const char* kSubject = "loader";
  if (!program.elf) return {};
  if (!program.elf->is_dynamic) {
    return {fault(kSubject, "a static program: it loads no libraries, and so not Verbatim's",
                  "link it dynamically; programs that it starts do see the device")};
  }
  const std::string& loader = program.elf->loader;
  if (!program.has_loader) {
    return {fault(kSubject, fmt::format("{} is not there: the program cannot start", loader),
                  "install the C library of the program's architecture and distribution")};
  }
  if (loader.find("musl") != std::string::npos) {
    return {fault(kSubject,
                  fmt::format("{}: the program uses musl, Verbatim's libraries glibc", loader),
                  "use a program that is linked with glibc")};
  }
  if (!program.loader_words.empty()) {
    return {fault(kSubject, fmt::format("complains: {}", program.loader_words),
                  "install what is missing; with a newer C library in the program's folder, build "
                  "Verbatim on the older system")};
  }
  std::vector<std::string> missing;
  for (const LoadedLibrary& library : program.libraries) {
    if (library.path.empty()) missing.push_back(library.name);
  }
  if (missing.empty()) return {ok(kSubject, loader)};
  return {fault(kSubject, fmt::format("does not find {}", fmt::join(missing, ", ")),
                "install the packages that have these libraries")};
}

Findings check_rdma_libraries(const Program& program) {
  constexpr const char* kSubject = "libraries";
  Findings findings;
  std::vector<std::string> ours;
  for (const LoadedLibrary& library : program.libraries) {
    if (!is_rdma_library(library.name) || library.path.empty()) continue;
    if (library.is_ours) {
      ours.push_back(library.name);
    } else {
      findings.push_back(judge_foreign(program, library));
    }
  }
  if (!ours.empty()) {
    findings.push_back(ok(kSubject, fmt::format("{} of Verbatim", fmt::join(ours, ", "))));
  } else if (findings.empty() && program.elf && program.elf->is_dynamic &&
             program.interpreters.empty()) {
    findings.push_back(note(kSubject, "it loads no RDMA library when it starts",
                            "nothing if it loads one later (a plug-in, dlopen), or starts other "
                            "programs"));
  }
  return findings;
}

Findings check_later_libraries(const Program& program) {
  constexpr const char* kSubject = "dlopen";
  Findings findings;
  std::vector<std::string> names;
  const auto add = [&](const ElfFile& elf) {
    for (const std::string& name : elf.rdma_names) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  };
  if (program.elf) add(*program.elf);
  for (const LoadedLibrary& library : program.libraries) add(library.elf);
  for (const std::string& name : names) {
    if (std::ranges::find(program.absent_names, name) == program.absent_names.end()) {
      findings.push_back(ok(kSubject, fmt::format("it may load {} later: Verbatim's", name)));
    } else if (name.starts_with('/')) {
      findings.push_back(
          fault(kSubject, fmt::format("it may load {}: LD_LIBRARY_PATH does not lead there", name),
                "configure the program to load libibverbs.so.1 by its name"));
    } else {
      findings.push_back(
          note(kSubject,
               fmt::format("it may load {}, a name that Verbatim's folder does not have: the "
                           "system's library would come",
                           name),
               "nothing if it tries libibverbs.so.1, too"));
    }
  }
  return findings;
}

Findings check_sanitizer(const Program& program) {
  if (!program.elf) return {};
  const auto is_asan = [](const std::string& name) { return name.starts_with("libasan.so"); };
  const auto asan = std::ranges::find_if(program.elf->needed, is_asan);
  if (asan == program.elf->needed.end()) return {};
  return {ok("sanitizer",
             fmt::format("{}: {}", *asan,
                         program.elf->sets_asan_options
                             ? "'verbatim run' loads it first, before Verbatim's view of /sys"
                             : "it starts behind Verbatim's view of /sys"))};
}

Findings check_static_rdma(const Program& program) {
  const auto judge = [](const std::string& path) {
    return fault("libibverbs",
                 fmt::format("rdma-core's libibverbs is linked into {}: it asks the "
                             "kernel for a card, whatever libraries are there",
                             path),
                 "link it with -libverbs dynamically");
  };
  Findings findings;
  if (program.elf && program.elf->contains_libibverbs && program.path) {
    findings.push_back(judge(*program.path));
  }
  for (const LoadedLibrary& library : program.libraries) {
    const bool is_itself = library.name.starts_with("libibverbs.so");
    if (library.elf.contains_libibverbs && !is_itself) findings.push_back(judge(library.path));
  }
  return findings;
}

Findings check_device_libraries(const Program& program) {
  Findings findings;
  for (const LoadedLibrary& library : program.libraries) {
    for (const std::string_view vendor : {"libmlx5.so", "libmlx4.so", "libefa.so", "libmana.so",
                                          "libhns.so", "libibumad.so", "libibmad.so"}) {
      if (!library.name.starts_with(vendor) || library.is_ours) continue;
      findings.push_back(note(library.name,
                              "calls of one maker's cards, or of InfiniBand's management: they "
                              "find no device here",
                              "nothing if the program goes on without; choose its plain verbs"));
    }
  }
  return findings;
}

Findings check_program(const Program& program, const Machine& machine) {
  static constexpr Findings (*kChecks[])(const Program&) = {
      check_program_file,     check_launcher,       check_rights,      check_architecture,
      check_loader,           check_rdma_libraries, check_static_rdma, check_later_libraries,
      check_device_libraries, check_sanitizer,
  };
  Findings all;
  bool has_fault = false;
  for (const auto check : kChecks) {
    for (Finding& finding : check(program)) {
      has_fault = has_fault || finding.verdict == Verdict::fault;
      all.push_back(std::move(finding));
    }
  }
  if (!program.path) return all;
  if (has_fault) {
    all.push_back(
        note("path", "none: the program does not see Verbatim's device", "mend the faults above"));
    return all;
  }
  for (Finding& finding : check_path(machine)) all.push_back(std::move(finding));
  return all;
}

}  // namespace verbatim::cli::doctor
