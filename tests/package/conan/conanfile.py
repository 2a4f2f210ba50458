"""A project that uses the Conan package: tests/consumer, and the command. tests/package/conan.sh hands it to `conan create --test-folder`."""

import pathlib

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class Consumer(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeToolchain", "CMakeDeps", "VirtualRunEnv"

    def requirements(self):
        self.requires(self.tested_reference_str, run=True)  # the command, too

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder=str(pathlib.Path(self.recipe_folder).parents[1] / "consumer"))
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        self.run(f'"{pathlib.Path(self.build_folder, self.cpp.build.bindir, "consumer")}"', env="conanrun")
        self.run("epifuse run 'relu(x)' 'x=f32[4]' --device cpu", env="conanrun")
