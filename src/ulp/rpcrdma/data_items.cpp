#include "ulp/rpcrdma/data_items.h"

#include <algorithm>
#include <initializer_list>

#include "ulp/rpcrdma/compound_operations.h"

namespace verbatim::ulp::rpcrdma {
namespace {

constexpr std::uint32_t kNfs = 100003;
constexpr std::uint32_t kRpcReplyBytes = 24 + 64;  // Its head, with a verifier of RPCSEC_GSS.
/// Attributes of no bounded length: the ACLs (12, 58, 59), fs_locations (24, 67), the label (80).
constexpr std::uint32_t kLongAttributes[] = {1u << 12 | 1u << 24, 1u << 26 | 1u << 27,
                                             1u << 3 | 1u << 16};
constexpr std::uint32_t kLongBytes = 128 << 10;
constexpr std::uint32_t kRead = 25, kReadDir = 26;  // Operations of a compound.
constexpr std::uint32_t kReadLinkBytes = 4096;
constexpr std::uint32_t kOperationsMax = 64;  // Of a compound that is walked.

/// Walks over the fields of one side of a message, and notes what it looks for.
struct Walk {
  XdrReader xdr;
  bool is_reduced = false;
  DataItems data{};
  bool is_full = false;        // Of data.
  DataItem count{};            // Where it stands, and what it is.
  bool asks_for_long = false;  // Attributes.
};

void walk_data(Walk& walk) {
  const std::uint32_t bytes = walk.xdr.word();
  const std::uint32_t position = walk.xdr.position();
  if (!walk.is_reduced) walk.xdr.skip((std::uint64_t{bytes} + 3) & ~std::uint64_t{3});
  if (!walk.xdr.is_ok()) return;
  if (walk.data.full()) {
    walk.is_full = true;
  } else {
    walk.data.push({position, bytes});
  }
}

void walk_attributes_asked(Walk& walk) {
  const std::uint32_t words = walk.xdr.word();
  for (std::uint32_t i = 0; i < words && walk.xdr.is_ok(); ++i) {
    const std::uint32_t word = walk.xdr.word();
    if (i >= std::size(kLongAttributes) || (word & kLongAttributes[i]) != 0)
      walk.asks_for_long |= word != 0;
  }
}

void walk_form(Walk& walk, const char* form);

/// A union of the protocol: the form of the branch that its first word names.
const char* branch_of(char field, std::uint32_t word) {
  const auto at = [word](std::initializer_list<const char*> forms) -> const char* {
    return word < forms.size() ? forms.begin()[word] : nullptr;
  };
  switch (field) {
    case 'T':  // What CREATE makes: a device has two words, a link its path.
      return at({"", "", "", "8", "8", "o", "", "", "", ""});
    case 'L':  // LOCK's owner: the one before, or a new one.
      return at({"64", "4648o"});
    case 'H':  // Whether OPEN creates, and how.
      return at({"", "K"});
    case 'K':
      return at({"bo", "bo", "8", "8bo"});
    case 'M':  // What OPEN claims.
      return at({"o", "4", "6o", "o", "", "6", ""});
    case 'G':  // OPEN's delegation.
      return at({"", "64444o", "64W444o", "Y"});
    case 'W':  // Space of a delegation to write, in bytes or blocks.
      return at({nullptr, "8", "8"});
    case 'Y':  // Why there is none: contention or resources say whether it comes later.
      return at({"", "4", "4", "", "", "", "", "", ""});
    default:
      return nullptr;
  }
}

void walk_field(Walk& walk, char field) {
  switch (field) {
    case '4':
    case '8':
      return walk.xdr.skip(static_cast<std::uint64_t>(field - '0'));
    case '6':
      return walk.xdr.skip(16);
    case 'o':
      return static_cast<void>(walk.xdr.opaque());
    case 'b':
      return walk.xdr.words();
    case 'A':
      return walk_attributes_asked(walk);
    case 'D':
      return walk_data(walk);
    case 'C':
    case 'N':
      walk.count.position = walk.xdr.position();
      walk.count.bytes = walk.xdr.word();
      return;
    default:
      return walk_form(walk, branch_of(field, walk.xdr.word()));
  }
}

void walk_form(Walk& walk, const char* form) {
  if (form == nullptr) return walk.xdr.fail();
  for (; *form != '\0' && walk.xdr.is_ok(); ++form) walk_field(walk, *form);
}

/// At most what one operation answers.
std::uint32_t result_bytes(const CompoundOperation& operation, const Walk& walk) {
  if (walk.asks_for_long) return kLongBytes;
  if (operation.number == kReadDir) return walk.count.bytes;
  return operation.result_bytes;
}

CallShape shape_of_compound(XdrReader arguments) {
  Walk walk{.xdr = arguments};
  CallShape shape;
  std::uint64_t bytes = kRpcReplyBytes + 12 + padded(walk.xdr.opaque());
  walk.xdr.word();  // The minor version.
  const std::uint32_t count = walk.xdr.word();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t number = walk.xdr.word();
    const CompoundOperation* const operation = find_operation(number);
    if (operation == nullptr || i >= kOperationsMax) return {};
    walk.asks_for_long = false;
    walk_form(walk, operation->arguments);
    bytes += result_bytes(*operation, walk);
    if (operation->arguments == nullptr && i + 1 == count) break;
    if (!walk.xdr.is_ok() || walk.is_full) return {};
    if (number == kRead && shape.results.full()) return {};
    if (number == kRead) shape.results.push(walk.count);
  }
  shape.arguments = walk.data;
  shape.reply_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, kMessageMax));
  return shape;
}

/// NFSv3's procedures (RFC 1813).
constexpr std::uint32_t kHandle = 4 + 68;
constexpr std::uint32_t kReplyBytes3[] = {0,
                                          120,
                                          220,
                                          kHandle + 220,
                                          120,
                                          100,
                                          120,
                                          140,  // NULL to WRITE; READLINK's path is counted.
                                          kHandle + 320,
                                          kHandle + 320,
                                          kHandle + 320,
                                          kHandle + 320,  // CREATE to MKNOD.
                                          140,
                                          140,
                                          260,
                                          220,
                                          120,
                                          120,
                                          180,
                                          180,
                                          140,
                                          150};  // REMOVE to COMMIT.
constexpr std::uint32_t kReadLink3 = 5, kRead3 = 6, kWrite3 = 7, kReadDir3 = 16, kReadDirPlus3 = 17;

CallShape shape_of_v3(std::uint32_t procedure, XdrReader arguments) {
  if (procedure >= std::size(kReplyBytes3)) return {};
  Walk walk{.xdr = arguments};
  if (procedure == kWrite3) walk_form(walk, "o844D");
  if (procedure == kRead3) walk_form(walk, "o8C");
  if (procedure == kReadDir3) walk_form(walk, "o88N");
  if (procedure == kReadDirPlus3) walk_form(walk, "o884N");
  if (!walk.xdr.is_ok()) return {};
  CallShape shape{.arguments = walk.data, .results = {}, .reply_bytes = kRpcReplyBytes + 8};
  shape.reply_bytes += kReplyBytes3[procedure];
  if (procedure == kRead3) shape.results.push(walk.count);
  if (procedure == kReadLink3) shape.reply_bytes += kReadLinkBytes;
  if (procedure == kReadDir3 || procedure == kReadDirPlus3)
    shape.reply_bytes =
        std::min(kMessageMax, shape.reply_bytes + std::min(walk.count.bytes, kMessageMax));
  return shape;
}

void walk_reply_v3(Walk& walk, std::uint32_t procedure) {
  if (procedure != kRead3 && procedure != kReadLink3) return;
  if (walk.xdr.word() != 0) return;  // The status.
  if (walk.xdr.word() != 0) walk.xdr.skip(84);
  walk_form(walk, procedure == kRead3 ? "44D" : "D");
}

void walk_reply_v4(Walk& walk) {
  walk.xdr.word();  // The status: of the last operation.
  walk.xdr.opaque();
  const std::uint32_t count = walk.xdr.word();
  for (std::uint32_t i = 0; i < count && i < kOperationsMax; ++i) {
    const CompoundOperation* const operation = find_operation(walk.xdr.word());
    const bool is_done = walk.xdr.word() == 0;  // One that fails is the last.
    if (!walk.xdr.is_ok() || !is_done || operation == nullptr || operation->results == nullptr)
      return;
    walk_form(walk, operation->results);
  }
}

}  // namespace

CallShape shape_of(const RpcCall& call, XdrReader arguments) {
  if (call.is_protected) return {};
  constexpr std::uint32_t kNullBytes = kRpcReplyBytes;
  if (call.procedure == 0) return {.arguments = {}, .results = {}, .reply_bytes = kNullBytes};
  if (call.program != kNfs) return {};
  if (call.version == 4 && call.procedure == 1) return shape_of_compound(arguments);
  if (call.version == 3) return shape_of_v3(call.procedure, arguments);
  return {};
}

DataItems items_of_reply(const RpcCall& call, std::span<const Slice> reply, bool is_reduced) {
  Walk walk{.xdr = XdrReader(reply), .is_reduced = is_reduced};
  if (call.is_protected || call.program != kNfs || !read_reply(walk.xdr)) return {};
  if (call.version == 3) walk_reply_v3(walk, call.procedure);
  if (call.version == 4 && call.procedure == 1) walk_reply_v4(walk);
  return walk.data;
}

}  // namespace verbatim::ulp::rpcrdma
