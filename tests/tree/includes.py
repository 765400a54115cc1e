"""Who includes whom: the table of the house. A folder of src/ may include its own files and those of the
folders that its row names; nothing in src/ includes tests, benchmarks or the simulation."""

# Folder of src/ -> what it may include besides itself. A name that ends in .h is one header alone.
MAY_INCLUDE = {
    "base": (),
    "config": ("base",),
    "observe": ("base",),
    "wire": ("base",),
    "region": ("base",),
    "transport": ("base", "observe", "wire", "region"),
    "cm": ("base", "observe", "wire"),
    "mad": ("base", "observe", "wire"),
    "subnet": ("base", "observe", "wire", "mad"),
    "fabric": ("base", "observe", "wire", "mad"),
    "mover": ("base", "observe"),
    "adapter": ("base", "observe", "wire", "region", "transport", "cm", "mad", "mover"),
    "agent": ("base", "config", "observe", "wire", "region", "transport", "cm", "mad", "mover", "adapter"),
    "dropin": ("base", "config/device.h", "adapter", "agent/client.h", "agent/device_files.h",
               "agent/locks.h", "agent/node.h", "cm", "mad"),
    "api": ("base", "include"),
    "infinity": ("include", "base/unique_fd.h"),
    "ulp": ("base", "include"),
    "offload": ("base", "observe"),
    # The commands ask the agents, as a drop-in does.
    "cli": ("base", "config", "observe", "fabric", "subnet", "include", "agent/client.h", "agent/node.h",
            # `verbatim doctor` asks the same functions as programs do.
            "agent/interfaces.h", "agent/runtime_folder.h", "agent/start_agent.h"),
    "dashboard": ("base", "observe"),
}

# Tests beside the code may use the test library, too.
TESTS_MAY_ALSO_INCLUDE = ("sim",)
