#!/usr/bin/env python3
"""The check of includes can fail: each kind of fault is found in a small tree made for it."""

import pathlib
import tempfile
import unittest

from check_includes import check, knots_of


class CheckIncludes(unittest.TestCase):
    def faults(self, files, *also, checked=check):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return checked(pathlib.Path(folder), *also)

    def test_lower_folder_may_be_included(self):
        self.assertEqual(self.faults({"wire/a.h": '#include "base/b.h"\n', "base/b.h": ""}), [])

    def test_upper_folder_may_not(self):
        faults = self.faults({"base/b.h": '#include "wire/a.h"\n', "wire/a.h": ""})
        self.assertEqual(len(faults), 1)
        self.assertIn("src/base may include nothing", faults[0])

    def test_one_header_of_a_folder(self):
        files = {"dropin/ibverbs/a.cpp": '#include "agent/client/client.h"\n#include "agent/server/server.h"\n',
                 "agent/client/client.h": "", "agent/server/server.h": ""}
        faults = self.faults(files)
        self.assertEqual(len(faults), 1)
        self.assertIn("agent/server/server.h", faults[0])

    def test_only_tests_may_use_the_simulation(self):
        self.assertEqual(self.faults({"transport/ib/a_test.cpp": '#include "sim/network.h"\n'}), [])
        self.assertEqual(len(self.faults({"transport/ib/a.cpp": '#include "sim/network.h"\n'})), 1)

    def test_paths_start_at_src(self):
        self.assertEqual(len(self.faults({"wire/a.cpp": '#include "a.h"\n', "wire/a.h": ""})), 1)

    def test_folder_without_a_row(self):
        self.assertEqual(len(self.faults({"nowhere/a.h": ""})), 1)

    def test_namespace_that_another_header_brought(self):
        use = {"dropin/rspreload/a.cpp": "int a = wire::kMadBytes;"}
        self.assertEqual(len(self.faults(use)), 1)
        self.assertEqual(self.faults({"dropin/rspreload/a.cpp": "// wire::kMadBytes"}), [])

    def test_upper_layers_call_c_libraries_by_their_drivers_alone(self):
        self.assertEqual(self.faults({"ulp/rdma/a.cpp": "#include <infiniband/verbs.h>\n"}), [])
        self.assertEqual(self.faults({"dropin/ibverbs/a.cpp": "#include <infiniband/verbs.h>\n"}), [])
        self.assertEqual(len(self.faults({"ulp/nvmeof/a.cpp": "#include <infiniband/verbs.h>\n"})), 1)
        self.assertEqual(len(self.faults({"ulp/rdma/a.cpp": "#include <liburing.h>\n"})), 1)

    def test_what_is_not_yet_so_does_not_grow_and_is_told_when_it_shrinks(self):
        files = {"base/b.h": '#include "wire/a.h"\n', "wire/a.h": ""}
        knot = [("base/b", "wire/a")]
        self.assertEqual(self.faults(files, {("base", "wire"): 1}), [])
        self.assertEqual(len(self.faults(files, {("base", "wire"): 2})), 1)
        self.assertEqual(len(self.faults(files, {}, knot)), 2)

    def test_units_that_include_each_other(self):
        files = {"base/a.h": '#include "base/b.h"\n', "base/b.h": "", "base/b.cpp": '#include "base/a.h"\n'}
        self.assertEqual(self.faults(files, checked=knots_of), [("base/a", "base/b")])
        self.assertEqual(len(self.faults(files)), 1)
        self.assertEqual(self.faults(files, {}, [("base/a", "base/b")]), [])

    def test_folder_with_too_many_files(self):
        self.assertEqual(len(self.faults({f"base/{number}.h": "" for number in range(26)})), 1)


if __name__ == "__main__":
    unittest.main()
