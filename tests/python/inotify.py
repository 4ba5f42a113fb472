"""What happens in folders, as Linux tells it: inotify(7), through the C library."""

import ctypes
import os
import select
import struct

MODIFY, CLOSE_WRITE, MOVED_TO, CREATE, DELETE = 0x2, 0x8, 0x80, 0x100, 0x200
_ALL = MODIFY | CLOSE_WRITE | MOVED_TO | CREATE | DELETE
_IS_FOLDER, _ONLY_FOLDER = 0x40000000, 0x01000000
_libc = ctypes.CDLL(None, use_errno=True)


class Inotify:
    def __init__(self):
        self._fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self._fd >= 0, os.strerror(ctypes.get_errno())
        self._folders = {}

    def watch(self, folder):
        """From now on; → whether the folder is there."""
        number = _libc.inotify_add_watch(self._fd, os.fsencode(folder), _ALL | _ONLY_FOLDER)
        if number >= 0:
            self._folders[number] = folder
        return number >= 0

    def events(self, seconds):
        """Waits for some, → [(folder, name, what, whether it is of a folder)]; none when the time is over."""
        if not select.select([self._fd], [], [], seconds)[0]:
            return []
        data, at, found = os.read(self._fd, 1 << 16), 0, []
        while at < len(data):
            number, mask, _, length = struct.unpack_from("iIII", data, at)
            name = data[at + 16:at + 16 + length].rstrip(b"\0").decode()
            at += 16 + length
            if number in self._folders and name:
                found.append((self._folders[number], name, mask & _ALL, bool(mask & _IS_FOLDER)))
        return found

    def close(self):
        os.close(self._fd)
