"""Stands in for Conan Center, which CI cannot reach: `conan export --name --version` makes the recipe of one package that ../../../../conanfile.py requires.
CMake gets the names and definitions that Conan Center gives; the headers are those of this machine. tests/package/conan.sh exports them."""

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration

# What Conan Center calls other than the package: the file of find_package(), the target with header_only, what that defines, and what it needs.
TARGETS = {
    "spdlog": ("spdlog", "spdlog::spdlog_header_only", ["SPDLOG_FMT_EXTERNAL"], ["fmt::headers"]),
    "fmt": ("fmt", "fmt::fmt-header-only", ["FMT_HEADER_ONLY=1"], []),
    "eigen": ("Eigen3", "Eigen3::Eigen", [], []),
    "cli11": ("CLI11", "CLI11::CLI11", [], []),
    "nlohmann_json": ("nlohmann_json", "nlohmann_json::nlohmann_json", [], []),
    "xxhash": ("xxHash", "xxHash::xxhash", [], []),
}


class Package(ConanFile):
    options = {"header_only": [True, False]}
    default_options = {"header_only": False}

    def config_options(self):
        if self.name not in ("spdlog", "fmt"):
            del self.options.header_only

    def requirements(self):
        if self.name == "spdlog":
            self.requires("fmt/11.2.0", transitive_headers=True)

    def validate(self):
        if self.options.get_safe("header_only") == False:
            raise ConanInvalidConfiguration(f"{self.name} has the target that EpiFuse takes with header_only alone")

    def package_info(self):
        file, target, defines, needs = TARGETS[self.name]
        self.cpp_info.set_property("cmake_file_name", file)
        headers = self.cpp_info.components["headers"]
        headers.set_property("cmake_target_name", target)
        headers.includedirs = ["/usr/include/eigen3" if self.name == "eigen" else "/usr/include"]
        headers.libdirs = []
        headers.defines = defines
        headers.requires = needs
