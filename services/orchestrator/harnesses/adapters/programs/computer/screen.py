"""What stands in an X server's framebuffer file (XWD format), and pictures of it as PNG. Pure."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass

_HEADER = struct.Struct(">20I")
_COLOUR_BYTES = 12
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, slots=True)
class Frame:
    """A picture: `pixels` has height x width x 4 bytes, each pixel blue, green, red and a byte without meaning."""

    width: int
    height: int
    pixels: bytes

    @property
    def blank(self) -> bool:
        """All pixels are the same."""
        return self.pixels == self.pixels[:4] * (self.width * self.height)


def parse_xwd(file: bytes) -> Frame:
    """The picture in an XWD file.

    Raises:
        ValueError: its pixels are not 4 bytes, the lowest first, without padding.
    """
    fields = _HEADER.unpack_from(file)
    header_bytes, width, height, byte_order, bits, line_bytes, colours = (fields[i] for i in (0, 4, 5, 7, 11, 12, 19))
    if (byte_order, bits, line_bytes) != (0, 32, width * 4):
        raise ValueError(f"a framebuffer of byte order {byte_order}, {bits} bits a pixel, {line_bytes} bytes a line")
    start = header_bytes + colours * _COLOUR_BYTES
    return Frame(width, height, file[start : start + height * line_bytes])


def png(frame: Frame) -> bytes:
    """A frame as a PNG file, 8 bits a colour."""
    rgb = bytearray(frame.width * frame.height * 3)
    rgb[0::3], rgb[1::3], rgb[2::3] = frame.pixels[2::4], frame.pixels[1::4], frame.pixels[0::4]
    line = frame.width * 3
    lines = b"".join(b"\0" + rgb[at : at + line] for at in range(0, len(rgb), line))  # each begins with its filter: none
    head = struct.pack(">2I5B", frame.width, frame.height, 8, 2, 0, 0, 0)
    return _PNG + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(lines, 6)) + _chunk(b"IEND", b"")


def data_url(picture: bytes) -> str:
    """A PNG file as a URL that holds it."""
    return "data:image/png;base64," + base64.b64encode(picture).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
