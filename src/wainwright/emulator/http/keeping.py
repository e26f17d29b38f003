"""Keeping an account in a file: read at the start, written soon after a change and at the end."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Final

import msgspec

from wainwright.clock import Clock
from wainwright.emulator import saving
from wainwright.emulator.cloud import EmulatedCloud
from wainwright.errors import BadInput

LOG: Final = logging.getLogger(__name__)
PAUSE: Final = 1.0  # seconds in which changes gather before they are written together


def resumed(file: Path, *, clock: Clock, queue_base: str) -> EmulatedCloud | None:
    """The account of the file, at home under a new address; None where there is no file yet."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from None
    saved = saving.read(data)
    account = saved.account
    at_home = msgspec.structs.replace(
        account, queue_url=f"{queue_base}/{account.account}/{account.queue}"
    )
    settings = msgspec.structs.replace(saved.settings, queue_base=queue_base)
    moved = msgspec.structs.replace(saved, account=at_home, settings=settings)
    return EmulatedCloud(saved.cloud, clock=clock, settings=settings, saved=moved)


class StateFile:
    """Writes the account. The file is whole at any moment: it is replaced, never changed."""

    def __init__(self, file: Path, cloud: EmulatedCloud) -> None:
        self._file = file
        self._cloud = cloud
        self._touched = asyncio.Event()

    def touch(self) -> None:
        self._touched.set()

    async def keep(self) -> None:
        """Writes after changes, for ever."""
        while True:
            await self._touched.wait()
            await self._cloud.clock.sleep(PAUSE)
            self._touched.clear()
            try:
                self.write()
            except BadInput as error:
                LOG.error("%s", error.message)  # a full disk may have room again next time

    def write(self) -> None:
        scratch = self._file.with_name(f"{self._file.name}.{os.getpid()}.new")
        try:
            scratch.write_bytes(self._cloud.save())
            scratch.replace(self._file)
        except OSError as error:
            raise BadInput(f"{self._file} cannot be written: {error.strerror}") from None
