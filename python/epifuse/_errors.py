"""The package's one exception of its own."""


class Error(RuntimeError):
    """What failed at run time: no driver, no NVRTC, no memory, a kernel that failed. `code` names it as the library
    does, "no_driver" for instance (include/epifuse/error.hpp). Bad input is a ValueError or a TypeError instead."""

    code: str = ""
