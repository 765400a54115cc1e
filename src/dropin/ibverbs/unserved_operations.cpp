#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/not_implemented.h"

/// The operations of a context that are not implemented. A null pointer would mean EOPNOTSUPP, too,
/// but without a log line; and the headers call some of them without a check.
namespace verbatim::dropin {
namespace {

template <std::size_t size>
struct Name {
  constexpr Name(const char (&name)[size]) { std::copy_n(name, size, text); }  // NOLINT: implicit.
  char text[size];
};

template <Name name, typename Returned, typename... Arguments>
void refuse_where_null(Returned (*&operation)(Arguments...)) {
  if (operation != nullptr) return;
  operation = [](Arguments...) -> Returned {
    if constexpr (std::is_pointer_v<Returned>) {
      return static_cast<Returned>(refuse_as_null(name.text));
    } else {
      return refuse_as_errno(name.text);
    }
  };
}

}  // namespace

void refuse_the_rest(verbs_context& context) {
  refuse_where_null<"ibv_modify_flow_action_esp">(context.modify_flow_action_esp);
  refuse_where_null<"ibv_destroy_flow_action">(context.destroy_flow_action);
  refuse_where_null<"ibv_create_flow_action_esp">(context.create_flow_action_esp);
  refuse_where_null<"ibv_modify_cq">(context.modify_cq);
}

}  // namespace verbatim::dropin
