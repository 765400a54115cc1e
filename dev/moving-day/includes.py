"""Who includes whom: the table of the house. A folder of src/ with a row is a room. A file may include its own
room's files and those that lie below a folder which its room's row names; nothing in src/ includes tests, benchmarks or
the simulation. A file that says a folder's namespace (`region::`) uses that folder, whichever header brought it."""

# Room of src/ -> what it may include besides itself. A name that ends in .h is one header alone.
MAY_INCLUDE = {
    "base": (),
    "observe": ("base",),
    "wire": ("base",),
    "region": ("base",),
    "region/adoption": ("base", "region"),
    "transport": ("base", "observe", "wire", "region"),
    "cm": ("base", "observe", "wire"),
    "mad": ("base", "observe", "wire"),
    "subnet": ("base", "observe", "wire", "mad"),
    "fabric": ("base", "observe", "wire", "mad"),
    "arena": ("base", "observe", "region"),
    "link": ("base", "observe", "wire"),
    "port": ("base", "observe", "wire", "region", "link"),
    "adapter/progress": ("base",),
    "adapter/queues": ("base", "arena", "transport", "adapter/progress"),
    "adapter/memory": ("base", "arena", "region"),
    "adapter/direct": ("base", "arena", "observe", "region", "transport", "adapter/memory", "adapter/progress"),
    "adapter/ethernet": ("base", "wire", "link", "adapter/progress", "adapter/queues"),
    "adapter/queue_pair": ("base", "observe", "wire", "region", "transport", "arena", "port", "adapter/direct", "adapter/memory",
                           "adapter/progress", "adapter/queues", "adapter/services"),
    "adapter/services": ("base", "observe", "wire", "region", "transport", "arena", "link", "port", "adapter/direct",
                         "adapter/memory", "adapter/progress", "adapter/queues", "adapter/queue_pair"),
    "adapter": ("base", "observe", "wire", "region", "transport", "cm", "mad", "arena", "link", "port", "adapter"),
    "agent/protocol": ("base", "arena", "wire"),
    "agent/client": ("base", "arena", "wire", "agent/protocol"),
    "agent/identity": ("base", "arena", "agent/protocol"),
    "agent/sockets": ("base", "arena", "link", "agent/protocol"),
    "agent/management": ("base", "arena", "cm", "wire", "port", "agent/protocol"),
    "agent": ("base", "observe", "wire", "region", "transport", "cm", "mad", "arena", "link", "port", "agent"),
    "ulp": ("base", "include"),
    "ulp/rsocket": ("base",),
    "dropin/ibverbs": ("base", "region", "transport", "arena", "adapter", "wire", "agent/client", "agent/protocol/node.h"),
    "dropin/rdmacm": ("base", "arena", "connect", "dropin/ibverbs/services.h"),
    "dropin": ("base",),
    "api": ("base", "include"),
    "infinity": ("include",),
    "offload": ("base", "observe"),
    # The commands ask the agents, as a drop-in does.
    "cli": ("base", "observe", "fabric", "subnet", "include", "agent/client", "agent/protocol"),
    "dashboard": ("base", "observe"),
}

# Tests beside the code may use the test library, too.
TESTS_MAY_ALSO_INCLUDE = ("sim",)

# What is not yet as the table says: (room, other room) -> how many places. A number here only falls.
NOT_YET = {}
