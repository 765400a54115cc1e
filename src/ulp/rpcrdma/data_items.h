#pragma once

#include <cstdint>
#include <span>

#include "base/inplace_vector.h"
#include "ulp/engine/slice.h"
#include "ulp/rpcrdma/pieces.h"
#include "ulp/rpcrdma/wire/header.h"
#include "ulp/rpcrdma/wire/rpc.h"

/// Where the data of NFS calls and replies lies: what a chunk may carry apart from the message (RFC
/// 8267: READ's and WRITE's data, READLINK's path; versions 3 and 4.0 to 4.2).
namespace verbatim::ulp::rpcrdma {

/// Opaque data in a message, behind its length word, without padding.
struct DataItem {
  std::uint32_t position = 0;
  std::uint32_t bytes = 0;
  friend bool operator==(const DataItem&, const DataItem&) = default;
};
using DataItems = InplaceVector<DataItem, kWriteChunksMax>;

/// What the sender of a call must know of it.
struct CallShape {
  DataItems arguments;  // WRITE's data.
  DataItems results;    // READ's data: where the call says how many bytes, and how many at most.
  /// At most so long is the reply, the data of `results` not counted.
  std::uint32_t reply_bytes = kMessageMax;
};
/// Of a call that the reader has read the head of.
CallShape shape_of(const RpcCall& call, XdrReader arguments);

/// The data items of a reply. `is_reduced`: they have been taken out, only their lengths stand
/// there; positions are those of the message as it is. Stops at what it does not understand.
DataItems items_of_reply(const RpcCall& call, std::span<const Slice> reply, bool is_reduced);

}  // namespace verbatim::ulp::rpcrdma
