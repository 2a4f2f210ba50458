"""Conan's recipe of the library and the command, built from this source tree: `conan create . -s compiler.cppstd=20` packs it. tests/package/conan is
a project that uses the package, and tests/package/conan.sh the test of both."""

import pathlib

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain
from conan.tools.files import copy

SOURCES = (
    "CMakeLists.txt",
    "CMakePresets.json",
    "VERSION",
    "LICENSE",
    "cmake/*",
    "include/*",
    "src/*",
    "templates/*",
    "tools/*",
)


class Epifuse(ConanFile):
    name = "epifuse"
    description = "One CUDA kernel for the tail of a GEMM or a convolution, generated at run time"
    license = "Apache-2.0"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],
        "tool": [True, False],  # the command `epifuse`
        "system_dependencies": [True, False],  # spdlog and the others are those of the machine, as for distributions
    }
    default_options = {
        "shared": False,
        "tool": True,
        "system_dependencies": False,
        "spdlog/*:header_only": True,  # these alone have the targets that cmake/EpifuseDependencies.cmake takes
        "fmt/*:header_only": True,
    }
    exports_sources = SOURCES

    def set_version(self):
        self.version = pathlib.Path(self.recipe_folder, "VERSION").read_text().strip()

    # Beside the folders of ./dev; ccache, which knows files by their place below the sources, finds there what ./dev compiled.
    def layout(self):
        self.folders.build = f"build-conan-{str(self.settings.build_type).lower()}"
        self.folders.generators = f"{self.folders.build}/generators"

    def validate(self):
        check_min_cppstd(self, 20)

    # Headers alone: what is built depends on the C and C++ libraries, and opens CUDA at run time.
    def requirements(self):
        if self.options.system_dependencies:
            return
        for one in ("spdlog/1.15.3", "fmt/11.2.0", "xxhash/0.8.3", "eigen/3.4.0"):
            self.requires(one, visible=False)
        if self.options.tool:
            for one in ("cli11/2.5.0", "nlohmann_json/3.12.0"):
                self.requires(one, visible=False)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        toolchain.cache_variables["EPIFUSE_BUILD_TOOLS"] = bool(self.options.tool)
        for part in ("TESTS", "EXAMPLES", "BENCHMARKS"):
            toolchain.cache_variables[f"EPIFUSE_BUILD_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, str(pathlib.Path(self.package_folder, "licenses")))
        CMake(self).install()

    # find_package(epifuse) finds the file that the installed library brings.
    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/epifuse"]
        self.cpp_info.libs = ["epifuse"]
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["dl", "pthread"]
