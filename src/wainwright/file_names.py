"""What a name from the input leads to. Those of `Path` raise an error for a name that is too long,
where it is one that leads to nothing.
"""

import os.path
import stat


def exists(name: str) -> bool:
    return os.path.exists(name)  # noqa: PTH110


def is_file(name: str) -> bool:
    return os.path.isfile(name)  # noqa: PTH113


def is_device(name: str) -> bool:
    """Such as /dev/zero, which has no end."""
    try:
        mode = os.stat(name).st_mode  # noqa: PTH116
    except (OSError, ValueError):
        return False
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def is_folder(name: str) -> bool:
    return os.path.isdir(name)  # noqa: PTH112
