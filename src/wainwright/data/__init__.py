"""Generated and committed data files: instance types, regions and prices."""

from pathlib import Path


def read_data_file(name: str) -> bytes:
    """The bytes of a data file of this package."""
    return (Path(__file__).parent / name).read_bytes()
