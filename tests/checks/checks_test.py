#!/usr/bin/env -S python3 -B
"""The checks pass a good tree and find what is wrong with bad ones. Each sample is a small tree, path to text."""

import tempfile
import unittest
from pathlib import Path

import forbidden_calls
import include_layers
import one_definition
import public_headers

TABLE = """
| module | may include | time and waiting | holds |
|---|---|---|---|
| `paceline/core` | | itself | |
| `paceline/fabric` | | itself | |
| `paceline/launch` | fabric | itself | |
| `paceline/collective` | fabric | through Endpoint and Clock | |
| `paceline/cli` | all | itself | |

Later:

| module | may include | time and waiting | holds |
|---|---|---|---|
| `paceline/codec` | | not at all | |
| `paceline/exchange` | codec, collective | through Endpoint and Clock | |
"""

GOOD = {
    "docs/architecture.md": TABLE,
    "docs/guide.md": "| `paceline/core/error.hpp` | Error |\n",
    "cmake/install.cmake": "set(public_headers\n    paceline/core/error.hpp)\n",
    "examples/fail.cpp": '#include "paceline/core/error.hpp"\n',
    "paceline/core/error.hpp": "#pragma once\n",
    "paceline/core/CMakeLists.txt": "module(core SOURCES error.cpp)\n",
    "paceline/fabric/endpoint.hpp": '#include "paceline/core/error.hpp"\n#include <poll.h>\n',
    "paceline/fabric/CMakeLists.txt": "module(fabric\n  SOURCES endpoint.cpp\n  DEPS core\n  LIBS fmt::fmt)\n",
    "paceline/collective/ring.cpp": '#include "paceline/fabric/endpoint.hpp"\n',
    "paceline/collective/CMakeLists.txt": "module(collective SOURCES ring.cpp DEPS fabric)\n",
    "paceline/launch/join.cpp": 'auto rank = std::getenv("PACELINE_RANK");\n',
    "paceline/cli/main.cpp": '#include "paceline/collective/ring.hpp"\nauto home = getenv("HOME");\n',
}


def findings(check, **changes: str) -> list[str]:
    """What a check says about GOOD with some files changed; their paths have __ for / and _dot_ for the dot."""
    files = GOOD | {name.replace("__", "/").replace("_dot_", "."): text for name, text in changes.items()}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return [str(finding) for finding in check(Path(folder))]


class IncludeLayers(unittest.TestCase):
    def assert_finds(self, expected: str, **changes: str) -> None:
        found = findings(include_layers.check, **changes)
        self.assertEqual(len(found), 1, found)
        self.assertIn(expected, found[0])

    def test_a_good_tree_passes(self):
        self.assertEqual(findings(include_layers.check), [])

    def test_an_include_of_a_higher_module_is_found_with_its_place_and_its_rule(self):
        self.assert_finds(
            "paceline/fabric/endpoint.cpp:2: fabric may include core, not collective (docs/architecture.md:5)",
            paceline__fabric__endpoint_dot_cpp='#include <vector>\n#include "paceline/collective/ring.hpp"\n',
        )

    def test_an_include_of_a_neighbour_is_found(self):
        self.assert_finds(
            "paceline/collective/tree.hpp:1: collective may include core, fabric, not launch",
            paceline__collective__tree_dot_hpp="#  include <paceline/launch/join.hpp>\n",
        )

    def test_unit_tests_are_bound_as_well(self):
        self.assert_finds(
            "ring_test.cpp:1: collective may include core, fabric, not cli",
            paceline__collective__ring_test_dot_cpp='#include "paceline/cli/measure.hpp"\n',
        )

    def test_a_file_in_a_folder_of_a_module_belongs_to_the_module(self):
        self.assert_finds(
            "paceline/fabric/shm/door.cpp:1: fabric may include core, not launch",
            paceline__fabric__shm__door_dot_cpp='#include "paceline/launch/join.hpp"\n',
        )

    def test_a_relative_path_is_found(self):
        self.assert_finds(
            'paceline/collective/tree.cpp:1: "../launch/join.cpp" is a file of the project',
            paceline__collective__tree_dot_cpp='#include "../launch/join.cpp"\n',
        )

    def test_a_quoted_include_of_an_outside_library_passes(self):
        changes = {"paceline__collective__sum_dot_cpp": '#include "hwy/foreach_target.h"\n'}
        self.assertEqual(findings(include_layers.check, **changes), [])

    def test_a_module_without_a_row_is_found(self):
        self.assert_finds("paceline/misc has no row", paceline__misc__all_dot_hpp="")

    def test_a_dependency_that_the_table_forbids_is_found_in_cmake(self):
        self.assert_finds(
            "paceline/fabric/CMakeLists.txt:3: fabric may not depend on launch",
            paceline__fabric__CMakeLists_dot_txt="module(fabric\n  SOURCES endpoint.cpp\n  DEPS core launch)\n",
        )

    def test_an_include_without_its_dependency_is_found(self):
        self.assert_finds(
            "DEPS lacks core, which paceline/fabric/endpoint.hpp:1 includes",
            paceline__fabric__CMakeLists_dot_txt="module(fabric SOURCES endpoint.cpp LIBS core)\n",
        )

    def test_a_dependency_that_nobody_includes_is_found(self):
        self.assert_finds(
            "CMakeLists.txt:2: DEPS names core, which no file of collective includes",
            paceline__collective__CMakeLists_dot_txt="module(collective SOURCES ring.cpp DEPS fabric\n  core)\n",
        )

    def test_an_optional_part_counts_as_its_module(self):
        optional = GOOD["paceline/fabric/CMakeLists.txt"] + "module(fabric_ucx SOURCES ucx.cpp DEPS fabric)\n"
        self.assertEqual(findings(include_layers.check, paceline__fabric__CMakeLists_dot_txt=optional), [])

    def test_a_circle_in_the_table_is_found(self):
        circle = TABLE.replace("| `paceline/codec` | |", "| `paceline/codec` | exchange |")
        self.assert_finds("a circle:", docs__architecture_dot_md=circle)

    def test_a_word_in_the_table_that_is_no_module_is_found(self):
        self.assert_finds(
            "exchange may include codex, which has no row",
            docs__architecture_dot_md=TABLE.replace("codec, collective", "codex, collective"),
        )


class OneDefinition(unittest.TestCase):
    def with_types(self, first: str, second: str) -> list[str]:
        changes = {"paceline__core__a_dot_hpp": first, "paceline__launch__b_dot_hpp": second}
        return findings(one_definition.check, **changes)

    def test_a_good_tree_passes(self):
        self.assertEqual(findings(one_definition.check), [])

    def test_a_name_with_two_types_is_found(self):
        for kind in ("struct", "class", "enum class"):
            code = f"namespace paceline {{\nvoid f() {{\n}}\n{kind} Request {{\n}};\n}}  // namespace paceline\n"
            found = self.with_types(code, code)
            self.assertEqual(len(found), 1, found)
            self.assertIn("b.hpp:4: paceline::Request is another type already, in paceline/core/a.hpp:4", found[0])

    def test_one_line_is_enough(self):
        code = "namespace paceline {\nenum class Verdict : int { good, bad };\n}\n"
        self.assertEqual(len(self.with_types(code, code)), 1)

    def test_others_are_not(self):
        outer = "namespace paceline {\nstruct Request {\n};\n}\n"
        for other in (
            "namespace paceline {\nstruct Request;\n}\n",
            "namespace paceline {\nnamespace {\nstruct Request {\n};\n}\n}\n",
            "namespace paceline::sim {\nstruct Request {\n};\n}\n",
            "namespace paceline {\nclass Store {\n  struct Request {\n  };\n};\n}\n",
            "namespace paceline {\nstruct Request::Part {\n};\n}\n",
        ):
            self.assertEqual(self.with_types(outer, other), [], other)


class PublicHeaders(unittest.TestCase):
    def assert_finds(self, expected: str, **changes: str) -> None:
        found = findings(public_headers.check, **changes)
        self.assertEqual(len(found), 1, found)
        self.assertIn(expected, found[0])

    def test_a_good_tree_passes(self):
        self.assertEqual(findings(public_headers.check), [])

    def test_a_header_without_a_row_is_found(self):
        self.assert_finds("install.cmake:2: paceline/core/error.hpp is installed, and", docs__guide_dot_md="")

    def test_a_row_without_a_header_is_found(self):
        self.assert_finds("guide.md:1: paceline/core/error.hpp has a row, and", cmake__install_dot_cmake="")

    def test_a_header_that_nobody_includes_is_found(self):
        self.assert_finds("no command, example or test includes it", examples__fail_dot_cpp="")

    def test_a_header_that_is_not_there_is_found(self):
        gone = GOOD["cmake/install.cmake"] + "list(APPEND public_headers\n     paceline/core/gone.hpp)\n"
        self.assert_finds("install.cmake:4: there is no paceline/core/gone.hpp", cmake__install_dot_cmake=gone)


class ForbiddenCalls(unittest.TestCase):
    def in_collective(self, code: str) -> list[str]:
        return findings(forbidden_calls.check, paceline__collective__bad_dot_cpp=code)

    def test_a_good_tree_passes(self):
        self.assertEqual(findings(forbidden_calls.check), [])

    def test_each_way_to_wait_or_to_read_time_is_found(self):
        for code in [
            "std::this_thread::yield();",
            "auto now = std::chrono::steady_clock::now();",
            "auto now = std::chrono::system_clock::to_time_t(x);",
            "SteadyClock clock;",
            "sleep(1);",
            "usleep (10);",
            "::nanosleep(&t, nullptr);",
            "int n = ::poll(&one, 1, -1);",
            "poll(all, count, 0);",
            "epoll_wait(set, events, 8, -1);",
            "std::mutex mutex_;",
            "std::condition_variable arrived_;",
            "std::unique_lock held(m);",
            "std::jthread helper;",
            "#include <thread>",
            "# include <sys/epoll.h>",
            "#include <unistd.h>",
        ]:
            with self.subTest(code):
                found = self.in_collective(f"\n{code}\n")
                self.assertEqual(len(found), 1, found)
                self.assertRegex(found[0], r"^paceline/collective/bad.cpp:2: .*through Endpoint and Clock \(docs/arch")

    def test_what_only_looks_like_it_passes(self):
        for code in [
            "// sleeps on a std::mutex",
            "/* poll(a, b)\n std::mutex */",
            'fail("called sleep(1) under a std::mutex");',
            'auto text = R"(std::mutex " )"; char c = \'"\'; int n = 1\'000; // std::mutex',
            "endpoint.idle(clock.after(10ms));",
            "transport_->poll(sink, more);",
            "bool Handle::poll(Sink& sink, int n) {",
            "bool poll(Sink& sink, int n);",
            "TimePoint asleep(int n);",
        ]:
            with self.subTest(code):
                self.assertEqual(self.in_collective(code), [])

    def test_the_place_is_right_after_a_comment_of_many_lines(self):
        self.assertIn("bad.cpp:4: std::mutex", self.in_collective("/* 1\n 2\n 3 */\nstd::mutex m;")[0])

    def test_a_pure_module_is_bound_as_well(self):
        found = findings(forbidden_calls.check, paceline__codec__topk_dot_cpp="sleep(1);")
        self.assertEqual(len(found), 1, found)
        self.assertIn("in codec: not at all", found[0])

    def test_unit_tests_are_free(self):
        changes = {"paceline__collective__ring_test_dot_cpp": 'std::jthread t; getenv("PACELINE_FULL");'}
        self.assertEqual(findings(forbidden_calls.check, **changes), [])

    def test_the_environment_is_read_in_cli_and_join_only(self):
        for place in ["paceline__fabric__a_dot_cpp", "paceline__launch__run_dot_cpp", "paceline__collective__a_dot_hpp"]:
            with self.subTest(place):
                found = findings(forbidden_calls.check, **{place: 'secure_getenv("PACELINE_RANK");'})
                self.assertEqual(len(found), 1, found)
                self.assertIn("only paceline/launch/join.cpp reads the environment", found[0])


if __name__ == "__main__":
    unittest.main()
