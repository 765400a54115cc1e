#include "ulp/rpcrdma/compound_operations.h"

#include <array>

namespace verbatim::ulp::rpcrdma {
namespace {

// RFC 7530 (4.0), 8881 (4.1), 7862 (4.2), 8276 (extended attributes).
constexpr CompoundOperation kOperations[] = {
    {3, "4", "44", 16},                // ACCESS
    {4, "46", "6", 24},                // CLOSE
    {5, "84", "8", 16},                // COMMIT
    {6, "Tobo", "488b", 48},           // CREATE
    {7, "8", "", 8},                   // DELEGPURGE
    {8, "6", "", 8},                   // DELEGRETURN
    {9, "A", "bo", 2000},              // GETATTR
    {10, "", "o", 140},                // GETFH
    {11, "o", "488", 28},              // LINK
    {12, "4488L", "6", 1100},          // LOCK: who has it, if it was denied.
    {13, "4888o", "", 1100},           // LOCKT
    {14, "44688", "6", 24},            // LOCKU
    {15, "o", "", 8},                  // LOOKUP
    {16, "", "", 8},                   // LOOKUPP
    {17, "bo", "", 8},                 // NVERIFY
    {18, "4448oHM", "64884bG", 1200},  // OPEN
    {19, "4", "", 8},                  // OPENATTR
    {20, "64", "6", 24},               // OPEN_CONFIRM
    {21, "6444", "6", 24},             // OPEN_DOWNGRADE
    {22, "o", "", 8},                  // PUTFH
    {23, "", "", 8},                   // PUTPUBFH
    {24, "", "", 8},                   // PUTROOTFH
    {25, "68C", "4D", 16},             // READ
    {26, "884Nb", nullptr, 0},         // READDIR: as many as the call says
    {27, "", "D", 4108},               // READLINK
    {28, "o", "488", 28},              // REMOVE
    {29, "oo", "488488", 48},          // RENAME
    {30, "8", "", 8},                  // RENEW
    {31, "", "", 8},                   // RESTOREFH
    {32, "", "", 8},                   // SAVEFH
    {33, "o", nullptr, 400},           // SECINFO
    {34, "6bo", "b", 24},              // SETATTR
    {35, "8o4oo4", "88", 300},         // SETCLIENTID: who has it, if it is in use.
    {36, "88", "", 8},                 // SETCLIENTID_CONFIRM
    {37, "bo", "", 8},                 // VERIFY
    {38, "684D", "448", 24},           // WRITE
    {39, "8o", "", 8},                 // RELEASE_LOCKOWNER
    {41, "644", "644", 32},            // BIND_CONN_TO_SESSION
    {42, nullptr, nullptr, 3000},      // EXCHANGE_ID
    {43, nullptr, nullptr, 128},       // CREATE_SESSION
    {44, "6", "", 8},                  // DESTROY_SESSION
    {45, "6", "", 8},                  // FREE_STATEID
    {52, "4", nullptr, 400},           // SECINFO_NO_NAME
    {53, "64444", "644444", 44},       // SEQUENCE
    {57, "8", "", 8},                  // DESTROY_CLIENTID
    {58, "4", "", 8},                  // RECLAIM_COMPLETE
    {59, "688", "", 8},                // ALLOCATE
    {62, "688", "", 8},                // DEALLOCATE
    {63, "688b", "b", 24},             // IO_ADVISE
    {66, "6", "", 8},                  // OFFLOAD_CANCEL
    {69, "684", "48", 20},             // SEEK
    {71, "66888", "", 8},              // CLONE
    {72, "o", "o", 65536 + 12},        // GETXATTR
    {73, "4oo", "488", 28},            // SETXATTR
    {74, "84", nullptr, 65536 + 32},   // LISTXATTRS
    {75, "o", "488", 28},              // REMOVEXATTR
};

constexpr std::size_t kNumbers = 76;
constexpr auto kByNumber = [] {
  std::array<const CompoundOperation*, kNumbers> by{};
  for (const CompoundOperation& one : kOperations) by[one.number] = &one;
  return by;
}();

}  // namespace

const CompoundOperation* find_operation(std::uint32_t number) {
  return number < kNumbers ? kByNumber[number] : nullptr;
}

}  // namespace verbatim::ulp::rpcrdma
